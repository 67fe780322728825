package e2e

import (
	"os"
	"path/filepath"
	"strings"
)

// seals is a bundle of an operator that validates and converts its Seals.
var seals = map[string]string{
	"metadata/annotations.yaml": `
annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: seal
`,
	"manifests/seals.yaml": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: seals.sea.example.com}
spec:
  group: sea.example.com
  scope: Namespaced
  names: {kind: Seal, listKind: SealList, plural: seals, singular: seal}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: &open {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: *open}}
`,
	"manifests/seal.clusterserviceversion.yaml": `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: seal.v1.0.0}
spec:
  version: 1.0.0
  installModes:
  - {type: AllNamespaces, supported: true}
  webhookdefinitions:
  - &webhook
    type: ValidatingAdmissionWebhook
    generateName: vseal.example.com
    deploymentName: seal
    containerPort: 443
    targetPort: 9443
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    webhookPath: /validate
    rules:
    - {apiGroups: [sea.example.com], apiVersions: [v1], operations: [CREATE], resources: [seals]}
  - <<: *webhook
    type: ConversionWebhook
    generateName: cseal.example.com
    webhookPath: /convert
    conversionCRDs: [seals.sea.example.com]
  install:
    strategy: deployment
    spec:
      deployments:
      - name: seal
        spec:
          selector: {matchLabels: {app: seal}}
          template:
            metadata: {labels: {app: seal}}
            spec:
              containers:
              - name: manager
                image: ` + probeImage + `
                imagePullPolicy: Never
                args: [webhooks, ":9443", /tmp/k8s-webhook-server/serving-certs]
                readinessProbe: {tcpSocket: {port: 9443}, periodSeconds: 1}
`,
}

const sealStack = `
apiVersion: platform.slipway.dev/v1alpha1
kind: PlatformStack
metadata: {name: sea}
spec:
  components:
  - {name: seal, namespace: sea, source: {bundle: {image: BUNDLE}}}
`

func seal(name string) string {
	return "apiVersion: sea.example.com/v1\nkind: Seal\nmetadata: {name: " + name + ", namespace: default}\n"
}

// testWebhooks installs a bundle from here, in a cluster that has neither cert-manager
// nor Slipway's operator: the API server trusts the certificates that its webhooks serve
// with, also after the Secret was lost.
func testWebhooks(c *localCluster) {
	dir := c.t.TempDir()
	for name, text := range seals {
		path := filepath.Join(dir, "bundle", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "stack.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(sealStack, "BUNDLE", filepath.Join(dir, "bundle"), 1)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.t.Setenv("KUBECONFIG", c.slipway("kubeconfig", "--name", c.name))
	apply := []string{"stack", "apply", "--local", "-f", file, "--timeout", "3m"}
	c.slipway(apply...)
	c.webhooksAnswer("first")
	was := c.kubectl("get", "secret", "seal-service-cert", "-n", "sea", "-o", `jsonpath={.data.tls\.crt}`)

	c.kubectl("delete", "secret", "seal-service-cert", "-n", "sea")
	c.slipway(apply...)
	if now := c.kubectl("get", "secret", "seal-service-cert", "-n", "sea", "-o", `jsonpath={.data.tls\.crt}`); now == was || now == "" {
		c.t.Error("the certificate is the one that was lost")
	}
	// The pod has the lost certificate, and then the new one: both are trusted.
	c.webhooksAnswer("second")
	c.kubectl("rollout", "restart", "deployment/seal", "-n", "sea")
	c.kubectl("rollout", "status", "deployment/seal", "-n", "sea", "--timeout=120s")
	c.webhooksAnswer("third")

	c.slipway("stack", "delete", "sea", "--local", "--timeout", "2m")
	if left := c.kubectl("get", "deployments,secrets", "-n", "sea", "-o", "name"); left != "" {
		c.t.Errorf("left behind: %s", left)
	}
	c.kubectl("delete", "crd", "seals.sea.example.com")
}

// webhooksAnswer demands that the API server gets an answer from both webhooks.
func (c *localCluster) webhooksAnswer(name string) {
	c.t.Helper()
	c.apply(seal(name))
	if out, err := c.try(seal("refused"), "kubectl", "--name", c.name, "--", "create", "-f", "-"); err == nil || !strings.Contains(out, "the operator refuses refused") {
		c.t.Errorf("the API server said %q, %v", out, err)
	}
	if got := c.kubectl("get", "seals.v1beta1.sea.example.com", name, "-o", "jsonpath={.converted}"); got != "by the operator" {
		c.t.Errorf("%s was converted: %q", name, got)
	}
}
