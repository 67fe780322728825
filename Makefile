# Slipway's targets. `make` alone lists them.
#
# Everything that is built lands in bin/ and dist/; compiled packages stay in
# Go's own cache, so that a second run takes seconds. Tools are pinned in
# tools/go.mod, a module of its own, and never touch the versions that the
# binary is built from.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO    ?= go
BIN   := bin
DIST  := dist
TOOLS := $(BIN)/tools

# The released version: the git tag where there is one, otherwise what
# internal/version says.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X github.com/slipway-dev/slipway/internal/version.Version=$(VERSION))

# The operator's image. `make docker-build docker-push IMG=registry/name:tag`.
IMG ?=
# The namespace that `make deploy` installs the operator into.
NAMESPACE ?= llm-system

##@ Build

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z-]*:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build bin/slipway, one static binary
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/slipway ./cmd/slipway
	@echo "built $(BIN)/slipway"

.PHONY: install
install: build ## Link bin/slipway (and kubectl-slipway, the kubectl plugin) into /usr/local/bin
	@ln -sf "$(CURDIR)/$(BIN)/slipway" /usr/local/bin/slipway
	@ln -sf "$(CURDIR)/$(BIN)/slipway" /usr/local/bin/kubectl-slipway

.PHONY: clean
clean: ## Remove bin/ and dist/
	@rm -rf $(BIN) $(DIST)

##@ Test

.PHONY: test
test: verify-generate components ## Run every test
	@$(GO) vet ./...
	@$(GO) test -timeout 45m ./...
	@$(GO) -C localcluster/envoy test -timeout 5m ./...

# go test keeps to itself what a package prints until it is done, so that a
# compile of minutes would look like a hang.
.PHONY: components
components:
	@$(GO) run ./internal/tools/components

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster
	@$(GO) test $$($(GO) list ./... | grep -Ev '/(internal/(cluster|install)|test/(integration|e2e|faults|bench))(/|$$)')

.PHONY: bench
bench: ## Measure the budgets beside a bare client
	@$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/bench/...

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Run golangci-lint, at the version pinned in tools/go.mod
	@$(TOOLS)/golangci-lint run ./...

##@ Try it

# The demo's cluster; `slipway up` without --name would give the same.
SLIPWAY := $(BIN)/slipway
KUBECTL := $(SLIPWAY) kubectl --

.PHONY: demo
demo: build ## Start a local Kubernetes, deploy a model, talk to it
	@$(SLIPWAY) up --llm-d=false >/dev/null
	@echo; echo "Applying config/samples/llm_v1alpha1_llmmodel.yaml and llm_v1alpha1_llmdeployment.yaml"
	@$(KUBECTL) apply -f config/samples/llm_v1alpha1_llmmodel.yaml -f config/samples/llm_v1alpha1_llmdeployment.yaml
	@$(KUBECTL) wait --for=condition=Ready llmdeployment/chat-service --timeout=180s
	@export KUBECONFIG="$$($(SLIPWAY) kubeconfig)"; \
	echo; echo "A completion through the deployment's Service, http://chat-service.default.svc:8080:"; \
	echo '{"model": "GPT-Small", "prompt": "Say hello", "max_tokens": 12}' \
	  | $(KUBECTL) create --raw /api/v1/namespaces/default/services/chat-service:http/proxy/v1/completions -f -; \
	echo; echo; echo "A streamed answer (slipway chat chat-service --message \"What are you?\"):"; echo; \
	$(SLIPWAY) chat chat-service --message "What are you?"; \
	echo; $(SLIPWAY) status LLMDeployment/chat-service; \
	echo; echo "Try next:"; \
	echo "  export KUBECONFIG=$$KUBECONFIG"; \
	echo "  $(SLIPWAY) chat chat-service            # a conversation"; \
	echo "  kubectl get llm-all                     # or: $(KUBECTL) get llm-all"; \
	echo "  $(SLIPWAY) status                       # what runs, and what is wrong"; \
	echo "Remove it all: make demo-down"

.PHONY: demo-down
demo-down: build ## End the demo's Kubernetes and remove all that is left of it
	@$(SLIPWAY) down

##@ Generate

.PHONY: generate
generate: $(TOOLS)/generate ## Write what is generated: deep copies, CRDs, RBAC, the chart's copies of them
	@$(TOOLS)/generate

.PHONY: manifests
manifests: generate ## The same as generate, under the name that the specification uses

.PHONY: verify-generate
verify-generate: $(TOOLS)/generate ## Fail if anything generated is stale
	@$(TOOLS)/generate -check

$(TOOLS)/golangci-lint: tools/go.mod tools/go.sum
	@echo "building golangci-lint (once; several minutes on a small machine)"
	@CGO_ENABLED=0 $(GO) -C tools build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# tools/generate runs the generators of controller-gen, at the version pinned in
# tools/go.mod.
$(TOOLS)/generate: tools/go.mod tools/go.sum $(wildcard tools/generate/*.go)
	@echo "building the generators (once)"
	@CGO_ENABLED=0 $(GO) -C tools build -o ../$@ ./generate

##@ Charts

# The resource whose charts are fetched (empty: the defaults), and where to.
LLMD   ?= config/samples/components_v1alpha1_llmd.yaml
CHARTS ?= $(DIST)/charts

.PHONY: get-manifests
get-manifests: build ## Fetch the charts of the Llmd in LLMD into CHARTS, render them, list their images
	@$(BIN)/slipway charts vendor $(if $(LLMD),-f $(LLMD)) -o $(CHARTS)

##@ Image and installation

.PHONY: docker-build
docker-build: require-img ## Build the image IMG for amd64 and arm64 into dist/, without Docker
	@$(GO) run ./internal/tools/images build -output $(DIST)/image -ldflags '$(LDFLAGS)' $(IMG)

.PHONY: docker-push
docker-push: require-img ## Push the image IMG that docker-build made, without Docker
	@$(GO) run ./internal/tools/images push -input $(DIST)/image $(IMG)

# The names of another operator's Makefile, whose users are used to them.
.PHONY: image image-build
image: docker-build docker-push ## Build the image IMG and push it
image-build: docker-build ## The same as docker-build

# deploy and undeploy are about Slipway's own operator; deploy-all and undeploy-all
# about what an LLMInferenceService needs on a Kubernetes without OLM.
# With a PRESET or a STACK they mean that, as they do in the platform's original.
.PHONY: deploy undeploy
ifneq ($(filter command,$(firstword $(origin PRESET)) $(firstword $(origin STACK))),)
deploy: deploy-all
undeploy: undeploy-all
else
deploy: require-img build ## Install the operator with image IMG into the current cluster; with PRESET=xks, the platform
	@$(BIN)/slipway install -n $(NAMESPACE) --image $(IMG)

undeploy: build ## Uninstall the operator from the current cluster; with PRESET=xks, the platform
	@$(BIN)/slipway uninstall -n $(NAMESPACE)
endif

##@ Platform

# The preset, its flavor (aks, coreweave; empty: neither), and the registry whose
# credentials (podman login) the cluster gets (empty: it has them already). STACK is a
# file in place of the preset, as one who has a mirror writes it.
PRESET ?= xks
FLAVOR ?=
LOGIN  ?= registry.redhat.io
STACK  ?=

.PHONY: deploy-all
deploy-all: build ## Install cert-manager, Istio, LeaderWorkerSet, KServe and a Gateway; FLAVOR=aks or coreweave; LOGIN= if the cluster has the pull secret
	@$(BIN)/slipway stack apply $(if $(STACK),-f $(STACK),--preset $(PRESET) $(if $(FLAVOR),--flavor $(FLAVOR))) $(if $(LOGIN),--login $(LOGIN))

.PHONY: deploy-kserve
deploy-kserve: deploy-all ## The same as deploy-all, which installs KServe once what it needs is ready

.PHONY: status
status: build ## Show the platform's components, the InferencePool API and Istio's version
	@$(BIN)/slipway stack status

.PHONY: undeploy-all
undeploy-all: build ## Uninstall what deploy-all installed; definitions and namespaces stay
	@$(BIN)/slipway stack delete $(if $(STACK),-f $(STACK),$(PRESET)) --ignore-not-found

.PHONY: require-img
require-img:
	@test -n "$(IMG)" || { echo "say which image, as in: make $(or $(firstword $(MAKECMDGOALS)),docker-build) IMG=registry.example.com/llm-operator:v0.1.0" >&2; exit 1; }
