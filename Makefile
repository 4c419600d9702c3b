# Three commands for people: `make demo`, `make test`, `make app`. Each says what it installs and why.
.PHONY: help demo test app package lint ui ui-e2e bench

help:
	@echo "make demo   install what is missing, build the headless parts, run real cases end to end (with Docker: on services and a browser too)"
	@echo "make test   install what is missing, then lint and run the whole suite"
	@echo "make app    install what is missing, build and start the desktop app"
	@echo "make package  install what is missing, build the desktop packages for this system (a release build: some minutes)"
	@echo "make bench  measure hub and runner on loopback (JSON)"

demo:
	@scripts/setup.sh headless
	@echo "building the headless parts (no GTK, no WebKit) …"
	@cargo build --locked --quiet --package everdict-cli
	@scripts/demo-images.sh
	@"$$(scripts/target-dir.sh)/debug/everdict-runner" demo

test:
	@scripts/setup.sh all
	@scripts/test.sh

ui:
	@scripts/setup.sh ui
	@npm --prefix ui ci --no-audit --no-fund --silent
	@npm --prefix ui run --silent build

ui-e2e:
	@scripts/setup.sh ui
	@npm --prefix ui ci --no-audit --no-fund --silent
	@npm --prefix ui run --silent e2e

app:
	@scripts/setup.sh all
	@$(MAKE) --no-print-directory ui
	@cargo run --locked --quiet --package everdict-desktop -- --show

package:
	@scripts/setup.sh all
	@$(MAKE) --no-print-directory ui
	@scripts/package.sh

lint:
	@scripts/lint.sh

bench:
	@cargo xtask bench lease
