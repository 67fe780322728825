package llmd_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/internal/render/llmd"
	"github.com/slipway-dev/slipway/test/golden"
)

// input is what testdata/NAME.in.yaml holds.
type input struct {
	Llmd    componentsv1alpha1.Llmd
	Sources []struct {
		llmd.Source
		Data map[string]string
	}
}

// TestGoldens renders releases. Faults are told as their sentences.
func TestGoldens(t *testing.T) {
	golden.Each(t, func(t *testing.T, path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var given input
		if err := yaml.UnmarshalStrict(text, &given); err != nil {
			t.Fatal(err)
		}
		in := llmd.Input{Llmd: &given.Llmd, Sources: map[llmd.Source]llmd.Data{}}
		for _, source := range given.Sources {
			data := llmd.Data{}
			for key, value := range source.Data {
				data[key] = []byte(value)
			}
			in.Sources[source.Source] = data
		}
		var out strings.Builder
		for _, each := range llmd.Releases(in) {
			out.WriteString("---\n" + shown(t, each))
		}
		return []byte(out.String())
	})
}

func shown(t *testing.T, r llmd.Release) string {
	t.Helper()
	fields := map[string]any{}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	fields["Timeout"] = r.Timeout.String()
	if r.Fault != nil {
		fields["Fault"] = r.Fault.Error()
	}
	text, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestOrder(t *testing.T) {
	if diff := cmp.Diff([]llmd.Component{llmd.Infra, llmd.GatewayAPI, llmd.ModelService}, llmd.Order()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]llmd.Component{llmd.ModelService, llmd.GatewayAPI, llmd.Infra}, llmd.Teardown()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]llmd.Component{llmd.GatewayAPI}, llmd.Needs(llmd.ModelService)); diff != "" {
		t.Error(diff)
	}
}

func entry(component, name, namespace string) componentsv1alpha1.ReleaseEntry {
	return componentsv1alpha1.ReleaseEntry{Component: component, Name: name, Namespace: namespace}
}

// TestMoves: what was recorded and isn't wanted any more goes, in the order of
// teardown, and nothing is forgotten.
func TestMoves(t *testing.T) {
	off := false
	resource := &componentsv1alpha1.Llmd{Spec: componentsv1alpha1.LlmdSpec{Charts: componentsv1alpha1.Charts{
		Namespace: "new", Infra: &componentsv1alpha1.ChartSpec{Enabled: &off}, GatewayAPI: &componentsv1alpha1.ChartSpec{Namespace: "old"},
	}}}
	wanted := llmd.Releases(llmd.Input{Llmd: resource})
	recorded := []componentsv1alpha1.ReleaseEntry{
		entry("infra", "llmd-infra", "old"), entry("gateway-api", "llmd-gateway-api", "old"), entry("modelservice", "llmd-modelservice", "old"),
	}
	gone := []componentsv1alpha1.ReleaseEntry{entry("modelservice", "llmd-modelservice", "old"), entry("infra", "llmd-infra", "old")}
	if diff := cmp.Diff(gone, llmd.Removals(recorded, wanted)); diff != "" {
		t.Errorf("removals: %s", diff)
	}
	record := append(recorded, entry("modelservice", "llmd-modelservice", "new"))
	if diff := cmp.Diff(record, llmd.Record(recorded, wanted)); diff != "" {
		t.Errorf("record: %s", diff)
	}
	resource.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if left := llmd.Releases(llmd.Input{Llmd: resource}); left != nil {
		t.Errorf("a resource on its way out wants %v", left)
	}
	if sources := llmd.Sources(resource); sources != nil {
		t.Errorf("a resource on its way out reads %v", sources)
	}
}

func TestValues(t *testing.T) {
	files := map[string]string{"first": "a: 1\nb: {c: one, d: [1, 2]}\n", "second": "b: {c: two, e: null}\n", "broken": "password123: [", "list": "[1]", "empty": "", "word": "x"}
	from := func(name string) componentsv1alpha1.ValuesReference {
		return componentsv1alpha1.ValuesReference{Kind: "ConfigMap", Name: name}
	}
	at := func(kind, name, path string) componentsv1alpha1.ValuesReference {
		return componentsv1alpha1.ValuesReference{Kind: kind, Name: name, TargetPath: path}
	}
	for name, test := range map[string]struct {
		from   []componentsv1alpha1.ValuesReference
		inline string
		want   string // JSON, or the beginning of an error
	}{
		"nothing":                        {want: `{}`},
		"later wins":                     {from: []componentsv1alpha1.ValuesReference{from("first"), from("second")}, want: `{"a":1,"b":{"c":"two","d":[1,2],"e":null}}`},
		"inline wins":                    {from: []componentsv1alpha1.ValuesReference{from("first")}, inline: `{"b":{"d":[3]},"a":{"x":1}}`, want: `{"a":{"x":1},"b":{"c":"one","d":[3]}}`},
		"a large number stays":           {inline: `{"n":12345678901234567890,"f":1.5}`, want: `{"f":1.5,"n":12345678901234567890}`},
		"an empty file":                  {from: []componentsv1alpha1.ValuesReference{from("empty")}, want: `{}`},
		"flat map of texts":              {inline: `{"decode.replicas":"2","decode.create":"true","name":"2","a.b":"x"}`, want: `{"a":{"b":"x"},"decode":{"create":true,"replicas":2},"name":"2"}`},
		"a path wins over a map":         {inline: `{"a.b":"2","a":{"b":1,"c":3}}`, want: `{"a":{"b":2,"c":3}}`},
		"an escaped dot":                 {inline: `{"labels.llm-d\\.ai/x":"y"}`, want: `{"labels":{"llm-d.ai/x":"y"}}`},
		"a list":                         {inline: `{"a[1].b.c":"y"}`, want: `{"a":[null,{"b":{"c":"y"}}]}`},
		"text in quotes":                 {inline: `{"a.b":"\"2\"","a.c":"007"}`, want: `{"a":{"b":"2","c":"007"}}`},
		"a dotted key that is no text":   {inline: `{"a.b":2}`, want: `{"a.b":2}`},
		"one value":                      {from: []componentsv1alpha1.ValuesReference{at("ConfigMap", "number", "a.n")}, want: `{"a":{"n":7}}`},
		"one secret value is a text":     {from: []componentsv1alpha1.ValuesReference{at("Secret", "number", "a.n")}, want: `{"a":{"n":"7"}}`},
		"a path through a text":          {from: []componentsv1alpha1.ValuesReference{from("first"), at("Secret", "number", "b.c.d")}, want: "path b.c.d: there is no map to hold d; correct the targetPath of Secret number"},
		"no such source":                 {from: []componentsv1alpha1.ValuesReference{from("absent")}, want: "ConfigMap absent in namespace llm-d doesn't exist; create it, or change spec.infra.valuesFrom[0]"},
		"no such source, optional":       {from: []componentsv1alpha1.ValuesReference{{Kind: "Secret", Name: "absent", Optional: true}}, want: `{}`},
		"no such key":                    {from: []componentsv1alpha1.ValuesReference{{Kind: "ConfigMap", Name: "first", Key: "k"}}, want: "ConfigMap first in namespace llm-d has no key k; add it"},
		"no such key, optional":          {from: []componentsv1alpha1.ValuesReference{{Kind: "ConfigMap", Name: "first", Key: "k", Optional: true}}, want: `{}`},
		"no YAML, and nothing is quoted": {from: []componentsv1alpha1.ValuesReference{from("broken")}, want: "key values.yaml of ConfigMap broken in namespace llm-d holds no YAML map; correct it"},
		"a list for a map":               {from: []componentsv1alpha1.ValuesReference{from("list")}, want: "key values.yaml of ConfigMap list"},
		"a path without an end":          {inline: `{"a.":"x"}`, want: `path "a." doesn't end in a key`},
		"a path of dots":                 {inline: `{"a..b":"x"}`, want: `path a..b has a dot without a key before it`},
		"an endless list":                {inline: `{"a.b[99999]":"x"}`, want: `path a.b[99999] has no index from 0 to 1024`},
	} {
		t.Run(name, func(t *testing.T) {
			in := llmd.Input{Llmd: &componentsv1alpha1.Llmd{}, Sources: map[llmd.Source]llmd.Data{}}
			for name, text := range files {
				in.Sources[llmd.Source{Kind: "ConfigMap", Namespace: "llm-d", Name: name}] = llmd.Data{"values.yaml": []byte(text)}
			}
			for _, kind := range []string{"ConfigMap", "Secret"} {
				in.Sources[llmd.Source{Kind: kind, Namespace: "llm-d", Name: "number"}] = llmd.Data{"values.yaml": []byte("7")}
			}
			spec := &componentsv1alpha1.ChartSpec{ValuesFrom: test.from}
			if test.inline != "" {
				spec.Values = &runtime.RawExtension{Raw: []byte(test.inline)}
			}
			in.Llmd.Spec.Infra = spec
			got := llmd.Releases(in)[0]
			if got.Fault != nil {
				if !strings.HasPrefix(got.Fault.Error(), test.want) {
					t.Errorf("got %v\nwant %s", got.Fault, test.want)
				}
				return
			}
			text, err := json.Marshal(got.Values)
			if err != nil || string(text) != test.want {
				t.Errorf("got  %s, %v\nwant %s", text, err, test.want)
			}
		})
	}
}

// TestDefaultValues: the pool's labels are the chart's only where the user names
// none, and only for the default chart.
func TestDefaultValues(t *testing.T) {
	for given, want := range map[string]string{
		`{}`: `{"inferencePool":{"modelServers":{"matchLabels":{"llm-d.ai/inferenceServing":"true"}}}}`,
		`{"inferencePool":{"modelServers":{"matchLabels":{"app":"x"}}}}`: `{"inferencePool":{"modelServers":{"matchLabels":{"app":"x"}}}}`,
		`{"inferencePool":{"targetPorts":[]}}`:                           `{"inferencePool":{"modelServers":{"matchLabels":{"llm-d.ai/inferenceServing":"true"}},"targetPorts":[]}}`,
		`{"inferencePool":null}`:                                         `{"inferencePool":null}`,
	} {
		resource := &componentsv1alpha1.Llmd{}
		resource.Spec.GatewayAPI = &componentsv1alpha1.ChartSpec{Values: &runtime.RawExtension{Raw: []byte(given)}}
		text, err := json.Marshal(llmd.Releases(llmd.Input{Llmd: resource})[1].Values)
		if err != nil || string(text) != want {
			t.Errorf("%s: got %s, %v, want %s", given, text, err, want)
		}
	}
	resource := &componentsv1alpha1.Llmd{}
	resource.Spec.GatewayAPI = &componentsv1alpha1.ChartSpec{Chart: "mine"}
	if got := llmd.Releases(llmd.Input{Llmd: resource})[1]; got.Chart.Version != "" || len(got.Values) != 0 {
		t.Errorf("another chart got the default's version %q and values %v", got.Chart.Version, got.Values)
	}
}

func TestCredentials(t *testing.T) {
	const docker = `{"auths":{"https://other.example.com/v1/":{"auth":"eDp5"},"charts.example.com":{"auth":"bWU6cGFzc3dvcmQxMjM="}}}`
	for name, test := range map[string]struct {
		data llmd.Data
		want llmd.Credentials
		err  string
	}{
		"login":     {data: llmd.Data{"username": []byte("me"), "password": []byte("password123\n")}, want: llmd.Credentials{Username: "me", Password: "password123"}},
		"token":     {data: llmd.Data{"token": []byte("t")}, want: llmd.Credentials{Token: "t"}},
		"docker":    {data: llmd.Data{".dockerconfigjson": []byte(docker)}, want: llmd.Credentials{Username: "me", Password: "password123"}},
		"half":      {data: llmd.Data{"username": []byte("me")}, err: "has neither username and password nor token"},
		"another's": {data: llmd.Data{".dockerconfigjson": []byte(`{"auths":{"x":{}}}`)}, err: "has no login for charts.example.com; add one"},
		"no JSON":   {data: llmd.Data{".dockerconfigjson": []byte(`password123`)}, err: "holds no JSON under .dockerconfigjson"},
		"not there": {err: "Secret login in namespace llm-d doesn't exist; create it, or change spec.infra.repository.secretRef"},
	} {
		t.Run(name, func(t *testing.T) {
			in := llmd.Input{Llmd: &componentsv1alpha1.Llmd{}, Sources: map[llmd.Source]llmd.Data{}}
			in.Llmd.Spec.Infra = &componentsv1alpha1.ChartSpec{Repository: &componentsv1alpha1.Repository{
				URL: "https://charts.example.com/llm-d", SecretRef: &componentsv1alpha1.SecretReference{Name: "login"},
			}}
			if test.data != nil {
				in.Sources[llmd.Source{Kind: "Secret", Namespace: "llm-d", Name: "login"}] = test.data
			}
			got := llmd.Releases(in)[0]
			switch {
			case test.err != "" && (got.Fault == nil || !strings.Contains(got.Fault.Error(), test.err)):
				t.Errorf("got %v, want %s", got.Fault, test.err)
			case test.err == "" && got.Fault != nil:
				t.Error(got.Fault)
			case test.err == "":
				if diff := cmp.Diff(test.want, got.Credentials); diff != "" {
					t.Error(diff)
				}
			}
			if got.Fault != nil && strings.Contains(got.Fault.Error(), "password123") {
				t.Errorf("the error quotes a secret: %v", got.Fault)
			}
		})
	}
}

// TestRetriesOfNone: a user who writes 0 means it.
func TestRetriesOfNone(t *testing.T) {
	none := int32(0)
	resource := &componentsv1alpha1.Llmd{}
	resource.Spec.Infra = &componentsv1alpha1.ChartSpec{Remediation: &componentsv1alpha1.Remediation{Strategy: componentsv1alpha1.RemediationRetry, Retries: &none}}
	if got := llmd.Releases(llmd.Input{Llmd: resource})[0].Remediation.Strategy; got != release.Halt {
		t.Errorf("no retries is %s", got)
	}
}

// TestSources lists each once, and none of what is disabled.
func TestSources(t *testing.T) {
	off := false
	secret := componentsv1alpha1.ValuesReference{Kind: "Secret", Name: "s"}
	resource := &componentsv1alpha1.Llmd{}
	resource.Spec.Infra = &componentsv1alpha1.ChartSpec{ValuesFrom: []componentsv1alpha1.ValuesReference{secret, {Kind: "ConfigMap", Name: "c", Namespace: "n"}}}
	resource.Spec.GatewayAPI = &componentsv1alpha1.ChartSpec{Enabled: &off, ValuesFrom: []componentsv1alpha1.ValuesReference{{Kind: "Secret", Name: "unread"}}}
	resource.Spec.ModelService = &componentsv1alpha1.ChartSpec{ValuesFrom: []componentsv1alpha1.ValuesReference{secret},
		Repository: &componentsv1alpha1.Repository{CASecretRef: &componentsv1alpha1.SecretReference{Name: "ca"}}}
	want := []llmd.Source{{Kind: "ConfigMap", Namespace: "n", Name: "c"}, {Kind: "Secret", Namespace: "llm-d", Name: "ca"}, {Kind: "Secret", Namespace: "llm-d", Name: "s"}}
	if diff := cmp.Diff(want, llmd.Sources(resource)); diff != "" {
		t.Error(diff)
	}
}

// TestFaultsWait: what isn't there yet is waited for, what can't be read isn't.
func TestFaultsWait(t *testing.T) {
	resource := &componentsv1alpha1.Llmd{}
	resource.Spec.Infra = &componentsv1alpha1.ChartSpec{ValuesFrom: []componentsv1alpha1.ValuesReference{{Kind: "Secret", Name: "s"}}}
	in := llmd.Input{Llmd: resource, Sources: map[llmd.Source]llmd.Data{}}
	if err := llmd.Releases(in)[0].Fault; !condition.IsWait(err) {
		t.Errorf("an absent source is %v", err)
	}
	in.Sources[llmd.Source{Kind: "Secret", Namespace: "llm-d", Name: "s"}] = llmd.Data{"values.yaml": []byte("[")}
	if err := llmd.Releases(in)[0].Fault; !condition.IsStop(err) {
		t.Errorf("a broken source is %v", err)
	}
}
