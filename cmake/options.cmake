# Compiler options of every target, and the version header's facts.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(rafter_options INTERFACE)
target_compile_options(rafter_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                                                -fno-math-errno -fno-trapping-math -ffp-contract=off)
# Warnings are errors with the compilers that CI builds with; a newer one's new warnings do not stop a user.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(rafter_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12's false positives on inlined std::string and std::vector code at -O2.
  target_compile_options(rafter_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow
                                                  -Wno-array-bounds -Wno-stringop-overread -Wno-dangling-reference -Wno-dangling-pointer)
endif()
if(RAFTER_SANITIZE)
  target_compile_options(rafter_options INTERFACE -fsanitize=${RAFTER_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  target_link_options(rafter_options INTERFACE -fsanitize=${RAFTER_SANITIZE})
endif()

execute_process(COMMAND git -C ${CMAKE_CURRENT_SOURCE_DIR} rev-parse --short=12 HEAD
                OUTPUT_VARIABLE RAFTER_GIT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT RAFTER_GIT_COMMIT)
  set(RAFTER_GIT_COMMIT unknown)
endif()
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/cmake/version.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/version.cpp @ONLY)
