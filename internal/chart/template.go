package chart

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// manifest is an object becoming the text of a template.
type manifest struct {
	values Values
	// blocks are the expressions that stand where a mark with their number does.
	blocks []block
}

// expression is a text that a template gives, without the braces. It has none of
// the characters that YAML would escape between double quotes.
type expression string

// block is a value that a template gives as JSON.
type block struct {
	expression string
	// always says that the key is there even if the value is empty.
	always bool
}

// mark stands for a block until the text is written. No object may hold it.
const mark = "slipway-chart-block-"

// marked is a line whose value is a block.
var marked = regexp.MustCompile(`(?m)^( *)((?:- )?)([A-Za-z./-]+): ` + mark + `([0-9]+)$`)

// text writes an object.
func (t *manifest) text(content map[string]any) ([]byte, error) {
	node, err := t.node(content)
	if err != nil {
		return nil, err
	}
	text, err := marshal(node)
	if err != nil {
		return nil, err
	}
	return marked.ReplaceAllFunc(text, func(line []byte) []byte {
		parts := marked.FindSubmatch(line)
		indent, item, key := string(parts[1]), string(parts[2]), string(parts[3])
		number, err := strconv.Atoi(string(parts[4]))
		if err != nil || number >= len(t.blocks) {
			return line
		}
		if each := t.blocks[number]; each.always || item != "" {
			return fmt.Appendf(nil, "%s%s%s: {{ toJson (%s) }}", indent, item, key, each.expression)
		}
		return fmt.Appendf(nil, "%s{{- with %s }}\n%s%s: {{ toJson . }}\n%s{{- end }}", indent, t.blocks[number].expression, indent, key, indent)
	}), nil
}

// node is a value as YAML.
func (t *manifest) node(value any) (*yaml.Node, error) {
	switch v := value.(type) {
	case map[string]any:
		made := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range sortedKeys(v) {
			keyNode, err := t.node(key)
			if err != nil {
				return nil, err
			}
			child, err := t.node(v[key])
			if err != nil {
				return nil, err
			}
			made.Content = append(made.Content, keyNode, child)
		}
		return made, nil
	case []any:
		made := &yaml.Node{Kind: yaml.SequenceNode}
		for _, each := range v {
			child, err := t.node(each)
			if err != nil {
				return nil, err
			}
			made.Content = append(made.Content, child)
		}
		return made, nil
	case expression:
		return quoted("{{ " + string(v) + " }}"), nil
	case block:
		t.blocks = append(t.blocks, v)
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: mark + strconv.Itoa(len(t.blocks)-1)}, nil
	case string:
		if strings.Contains(v, mark) {
			return nil, fmt.Errorf("it holds the text %s, which stands for something else here", mark)
		}
		if escaped := escape(v); escaped != v {
			return quoted(escaped), nil
		}
	}
	made := &yaml.Node{}
	return made, made.Encode(value)
}

// quoted is a text between double quotes, on one line: what a template puts there
// stays a text, whatever it looks like.
func quoted(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: text}
}

const release = "{{ .Release.Namespace }}"

// escape puts the release's namespace where Namespace stands, and lets opening braces
// be braces. One brace before a template would become its beginning.
var escape = strings.NewReplacer(
	"{{", "{{`{{`}}",
	"{"+Namespace, "{{`{`}}"+release,
	Namespace, release,
).Replace

// place puts what values say into an object.
func (t *manifest) place(obj *unstructured.Unstructured) error {
	switch obj.GroupVersionKind().GroupKind().String() {
	case "ServiceAccount":
		obj.Object[keyPullSecrets] = pullSecrets(obj.Object[keyPullSecrets])
	case "Deployment.apps":
		pod, found := below(obj.Object, "spec", "template", "spec")
		if !found {
			return nil
		}
		if metadata, found := below(obj.Object, "spec", "template", "metadata"); found {
			t.placeAnnotations(metadata)
		}
		return t.placePod(obj.GetName(), pod)
	}
	return nil
}

// pullSecrets adds the values' to those of the object's own.
func pullSecrets(own any) block {
	const expression = ".Values.imagePullSecrets"
	var named []string
	list, _ := own.([]any)
	for _, each := range list {
		if entry, is := each.(map[string]any); is {
			if name, _ := entry["name"].(string); safe.MatchString(name) {
				named = append(named, "(dict `name` `"+name+"`)")
			}
		}
	}
	if len(named) == 0 {
		return block{expression: expression}
	}
	return block{expression: "concat (list " + strings.Join(named, " ") + ") " + expression}
}

// safe is a name that may stand between backquotes in a template.
var safe = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func (t *manifest) placePod(deployment string, pod map[string]any) error {
	if !safe.MatchString(deployment) {
		return errors.New("its name isn't one that Kubernetes takes")
	}
	values := &Deployment{Containers: map[string]*Container{}}
	at := "(index .Values.deployments `" + deployment + "`)"
	values.NodeSelector, _ = pod["nodeSelector"].(map[string]any)
	values.Tolerations, _ = pod["tolerations"].([]any)
	pod["nodeSelector"] = block{expression: at + ".nodeSelector"}
	pod["tolerations"] = block{expression: at + ".tolerations"}
	if account, _ := pod["serviceAccountName"].(string); account == "" || account == "default" {
		// The namespace's own account isn't the chart's.
		pod[keyPullSecrets] = pullSecrets(pod[keyPullSecrets])
	}
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := pod[list].([]any)
		for _, each := range containers {
			container, is := each.(map[string]any)
			name, _ := container["name"].(string)
			if !is || !safe.MatchString(name) {
				return fmt.Errorf("it has a container %q, whose name isn't one that Kubernetes takes", name)
			}
			image, _ := container["image"].(string)
			resources, hasResources := container["resources"].(map[string]any)
			values.Containers[name] = &Container{Image: image, Resources: resources}
			here := "(index " + at + ".containers `" + name + "`)"
			container["image"] = expression(here + ".image")
			container["resources"] = block{expression: here + ".resources", always: hasResources}
			t.placeEnvironment(container)
		}
	}
	t.values.Deployments[deployment] = values
	return nil
}

// How an operator is told which images to run: by variables, or by annotations that
// it reads through the downward API.
const (
	relatedVariable   = "RELATED_IMAGE_"
	relatedAnnotation = "images."
)

func (t *manifest) placeEnvironment(container map[string]any) {
	variables, _ := container["env"].([]any)
	for _, each := range variables {
		variable, _ := each.(map[string]any)
		name, _ := variable["name"].(string)
		image, _ := variable["value"].(string)
		if key, is := strings.CutPrefix(name, relatedVariable); is && image != "" && safe.MatchString(key) {
			variable["value"] = t.related(strings.ToLower(strings.ReplaceAll(key, "_", "-")), image)
		}
	}
}

func (t *manifest) placeAnnotations(metadata map[string]any) {
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, name := range sortedKeys(annotations) {
		image, _ := annotations[name].(string)
		if key, is := strings.CutPrefix(name, relatedAnnotation); is && image != "" && safe.MatchString(key) {
			annotations[name] = t.related(key, image)
		}
	}
}

// related gives an image a key among the values. Two that are named alike and differ
// get a number.
func (t *manifest) related(key, image string) expression {
	free := key
	for i := 2; ; i++ {
		if known, taken := t.values.RelatedImages[free]; !taken || known == image {
			break
		}
		free = fmt.Sprintf("%s-%d", key, i)
	}
	t.values.RelatedImages[free] = image
	return expression("index .Values.relatedImages `" + free + "`")
}

// below is a map within maps.
func below(content map[string]any, path ...string) (map[string]any, bool) {
	for _, key := range path {
		next, is := content[key].(map[string]any)
		if !is {
			return nil, false
		}
		content = next
	}
	return content, true
}
