# Front door. Each target does everything it needs from a bare checkout and may be run again at any time.
.PHONY: help demo build test test-gpu lint check oracle test-asan test-tsan fuzz fuzz-tokenizers load install clean

SMOLLM2 := build/models/smollm2-135m-instruct.gguf

help:
	@echo "make demo        install packages, build, fetch a small model (93 MB) and ask it a question"
	@echo "make build       build build/release/rafter"
	@echo "make test        build, make the expected values with the pinned Python peers, run the test suite"
	@echo "make test-gpu    build with CUDA (build/cuda) and run the tests that need a GPU; they are skipped without one"
	@echo "make check       lint, test, and the suite under the sanitizers: what CI runs"
	@echo "make fuzz        the long runs of the fuzz targets (FUZZ_RUNS=10000000 each, hours); FUZZ_TARGETS=a_fuzz,b_fuzz FUZZ_JOBS=8"
	@echo "make fuzz-tokenizers  55,000 more texts (SEED=2) through every vocabulary, compared with the tokenizers library"
	@echo "make load        ten minutes of 64 streams and worse clients against the server (LOAD_SECONDS=60: one minute)"
	@echo "make lint        formatting and include directions (make lint FIX=1 formats)"
	@echo "make install     install the release build (PREFIX=/usr/local)"
	@echo "make clean       remove build/"

build/.dependencies: scripts/install-dependencies
	@scripts/install-dependencies
	@mkdir -p build && touch $@

build/.test-dependencies: scripts/install-dependencies
	@scripts/install-dependencies --tests
	@mkdir -p build && touch $@

build: build/.dependencies
	@cmake --preset release > build/configure.log || { cat build/configure.log; exit 1; }
	@echo "building build/release/rafter (a few minutes the first time)"
	@cmake --build --preset release

$(SMOLLM2): scripts/fetch-smollm2
	@scripts/fetch-smollm2 $@

demo: build/.dependencies
	@cmake --preset release -DRAFTER_BUILD_TESTS=OFF -B build/demo > build/configure.log || { cat build/configure.log; exit 1; }
	@echo "building build/demo/rafter (a few minutes the first time)"
	@cmake --build build/demo
	@$(MAKE) --no-print-directory $(SMOLLM2)
	@build/demo/rafter scan --name smollm2 $(SMOLLM2)
	@echo 'rafter generate smollm2 "What is the capital of France?" --temperature 0'
	@build/demo/rafter generate smollm2 "What is the capital of France?" --temperature 0 --verbose

oracle: build/.test-dependencies $(SMOLLM2)
	@oracle/setup build/oracle/venv
	@build/oracle/venv/bin/python oracle/generate.py --out build/oracle/data
	@build/oracle/venv/bin/python oracle/smollm2.py --gguf $(SMOLLM2) --out build/oracle/smollm2
	@$(MAKE) --no-print-directory build/oracle/tokenizer/vectors.json build/oracle/tokenizer/smollm2_ids.json \
	  build/oracle/jinja/random.json build/oracle/codec/vectors.txt build/oracle/vocabularies/corpus.bin \
	  build/oracle/json_schema/random.jsonl \
	  build/oracle/draft/mixture.safetensors build/wire/node_modules/.installed

build/wire/node_modules/.installed: tests/wire/clients/package.json
	@mkdir -p build/wire && cp $< build/wire/
	@cd build/wire && npm install --no-audit --no-fund --loglevel=error
	@touch $@

TOKENIZER_VECTORS := oracle/tokenizer_vectors.py oracle/tokenizer_texts.py oracle/gguf_tokenizer.py oracle/requirements.txt

build/oracle/tokenizer/vectors.json: $(TOKENIZER_VECTORS)
	@build/oracle/venv/bin/python oracle/tokenizer_vectors.py --out build/oracle/tokenizer --random 3000

build/oracle/tokenizer/smollm2_ids.json: $(TOKENIZER_VECTORS) $(SMOLLM2)
	@build/oracle/venv/bin/python oracle/tokenizer_vectors.py --out build/oracle/tokenizer --gguf $(SMOLLM2)

build/oracle/draft/mixture.safetensors: oracle/qwen3_5_draft.py build/oracle/data/manifest.json
	@build/oracle/venv/bin/python oracle/qwen3_5_draft.py --data build/oracle/data --out build/oracle/draft

build/oracle/codec/vectors.txt: oracle/codec_vectors.py oracle/requirements.txt
	@build/oracle/venv/bin/python oracle/codec_vectors.py --random $@

build/oracle/json_schema/random.jsonl: oracle/json_schema.py tests/data/json_schema_cases.json oracle/requirements.txt
	@build/oracle/venv/bin/python oracle/json_schema.py hand tests/data/json_schema_cases.json
	@build/oracle/venv/bin/python oracle/json_schema.py random --out $@

VOCABULARIES := oracle/tokenizer_vocabularies.py oracle/tokenizer_corpus.py oracle/tokenizer_trained.py

build/oracle/vocabularies/corpus.bin: $(VOCABULARIES) $(TOKENIZER_VECTORS) $(SMOLLM2)
	@echo "fetching the vocabularies of seven models (120 MB) and comparing 55,000 texts (two minutes)"
	@build/oracle/venv/bin/python oracle/tokenizer_vocabularies.py --out build/oracle/vocabularies --gguf $(SMOLLM2)

build/oracle/jinja/random.json: oracle/jinja_vectors.py oracle/jinja_random.py oracle/requirements.txt
	@mkdir -p $(@D)
	@build/oracle/venv/bin/python oracle/jinja_vectors.py random --count 3000 --seed 1 --out $@

test: build oracle
	@scripts/run-tests build/release

# Needs nvcc. CUDA_ARCHITECTURES=90a-real builds for one kind of GPU only.
test-gpu: build/.test-dependencies
	@cmake --preset cuda $(if $(CUDA_ARCHITECTURES),-DCMAKE_CUDA_ARCHITECTURES="$(CUDA_ARCHITECTURES)") \
	  > build/configure-cuda.log || { cat build/configure-cuda.log; exit 1; }
	@cmake --build build/cuda --target cuda_test
	@scripts/run-tests build/cuda --programs '^cuda_test$$' --may-skip

lint: build/.test-dependencies
	@scripts/lint $(if $(FIX),--fix)

# Every unit, kernel and mutant test, and the model tests on one checkpoint per family and format.
test-asan: build/.test-dependencies
	@cmake --preset asan > build/configure-asan.log || { cat build/configure-asan.log; exit 1; }
	@cmake --build --preset asan
	@RAFTER_ORACLE_SAMPLE=1 scripts/run-tests build/asan

# What runs on several threads or processes.
TSAN_TESTS := http_test hostile_test responsive_test helper_pool_test chat_test worker_team_test matmul_test row_kernels_test attention_test order_test generation_test registry_test \
              chat_template_test scheduler_test cli_worker_test
empty :=
space := $(empty) $(empty)

test-tsan: build/.test-dependencies
	@cmake --preset tsan > build/configure-tsan.log || { cat build/configure-tsan.log; exit 1; }
	@cmake --build --preset tsan --target $(TSAN_TESTS)
	@RAFTER_ORACLE_SAMPLE=1 scripts/run-tests build/tsan --programs '^($(subst $(space),|,$(TSAN_TESTS)))$$'

FUZZ_RUNS := 10000000
FUZZ_JOBS := 1

# One target after another at the lowest priority; the record goes to bench/records/fuzz.json. Short runs of the same
# targets are part of the test suite.
fuzz: build/.test-dependencies
	@cmake --preset fuzz > build/configure-fuzz.log || { cat build/configure-fuzz.log; exit 1; }
	@cmake --build --preset fuzz --target fuzz_targets
	@scripts/fuzz build/fuzz --runs $(FUZZ_RUNS) --jobs $(FUZZ_JOBS) $(if $(FUZZ_TARGETS),--targets $(FUZZ_TARGETS))

# Another 55,000 texts, made from SEED, through every vocabulary and the `tokenizers` library: the ids and texts must be the
# same. `make test` has those of seed 1.
SEED := 2
fuzz-tokenizers: build $(SMOLLM2)
	@oracle/setup build/oracle/venv
	@build/oracle/venv/bin/python oracle/tokenizer_vocabularies.py --out build/oracle/vocabularies-seed --gguf $(SMOLLM2) --seed $(SEED)
	@RAFTER_VOCABULARIES=$(CURDIR)/build/oracle/vocabularies-seed build/release/tests/vocabularies_test

LOAD_SECONDS := 600

# The record goes to bench/records/serving-load.json. Half a minute of the same is part of the test suite.
load: build $(SMOLLM2)
	@scripts/serving-load $(LOAD_SECONDS)

check:
	@scripts/run-tests --clear
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-asan
	@$(MAKE) --no-print-directory test-tsan
	@scripts/check-cuda
	@scripts/run-tests --summary

install: build
	@cmake --install build/release $(if $(PREFIX),--prefix $(PREFIX))

clean:
	rm -rf build
