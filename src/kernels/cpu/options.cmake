# The tier is the file: *_avx2.cpp and *_avx512.cpp are compiled for their instruction sets, *_portable.cpp for the
# baseline. A tier's file includes shared bodies (*-inl.h), which put everything into the namespace RAFTER_TIER, so that
# no function compiled for one tier can be linked into another.
if(NOT RAFTER_SANITIZE)  # at -O3 a sanitizer takes minutes over the largest of these files
  set(tier_optimisation ";-O3")
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  file(GLOB avx2_sources CONFIGURE_DEPENDS ${source_dir}/*_avx2.cpp)
  set_source_files_properties(${avx2_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi2${tier_optimisation}")
  file(GLOB avx512_sources CONFIGURE_DEPENDS ${source_dir}/*_avx512.cpp)
  set_source_files_properties(${avx512_sources} PROPERTIES COMPILE_OPTIONS
    "-mavx2;-mfma;-mf16c;-mbmi2;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vbmi;-mavx512vnni;-mavx512bf16${tier_optimisation};-mprefer-vector-width=512")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC 12's own intrinsics read _mm512_undefined_*() (its bug 105593)
    set_property(SOURCE ${avx512_sources} APPEND PROPERTY COMPILE_OPTIONS "-Wno-uninitialized")
    # It packs the pointers of neighbouring rows of W into vectors right after storing them apart, and takes them apart
    # again: 60 cycles per pair of rows, a quarter of the time at 1536 columns. What should be vectors is written so.
    set_property(SOURCE ${source_dir}/matmul_avx512.cpp APPEND PROPERTY COMPILE_OPTIONS "-fno-tree-vectorize")
  endif()
endif()
