package olm

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Difference is what someone must know before a bundle takes the place of another.
// Each is sorted, a line of text for each change.
type Difference struct {
	// Images are those of Deployments, as "deployment/container: old -> new".
	Images []string
	// Gained and Lost are permissions, as "account or role: verb resource.group".
	Gained, Lost []string
	// Warnings are fields of definitions that were removed or narrowed, and versions
	// that are no longer served: objects that have them may be refused.
	Warnings []string
	// Errors are versions that objects may be stored in and that the definition no
	// longer has: the API server refuses such a definition.
	Errors []string
}

// Compare tells what changes from one set of objects to another, both made for the
// same namespace.
func Compare(before, after []*unstructured.Unstructured) Difference {
	made := Difference{Images: compareImages(imagesOf(before), imagesOf(after))}
	old, current := permissionsOf(before), permissionsOf(after)
	made.Gained, made.Lost = missing(current, old), missing(old, current)
	next := definitionsOf(after)
	for name, definition := range definitionsOf(before) {
		replaced, found := next[name]
		if !found {
			made.Warnings = append(made.Warnings, fmt.Sprintf("%s is no longer part of the bundle; the definition and its objects stay until someone deletes them", name))
			continue
		}
		warnings, errors := compareDefinitions(name, definition, replaced)
		made.Warnings = append(made.Warnings, warnings...)
		made.Errors = append(made.Errors, errors...)
	}
	slices.Sort(made.Warnings)
	slices.Sort(made.Errors)
	return made
}

func imagesOf(objects []*unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	for _, each := range objects {
		if each.GetKind() != "Deployment" {
			continue
		}
		for _, list := range []string{"initContainers", "containers"} {
			containers, _, _ := unstructured.NestedSlice(each.Object, "spec", "template", "spec", list)
			for _, one := range containers {
				container, _ := one.(map[string]any)
				at := fmt.Sprint(each.GetName(), "/", container["name"])
				found[at] = fmt.Sprint(container["image"])
				variables, _ := container["env"].([]any)
				for _, one := range variables {
					variable, _ := one.(map[string]any)
					if name, _ := variable["name"].(string); strings.HasPrefix(name, relatedPrefix) {
						found[at+" "+name] = fmt.Sprint(variable["value"])
					}
				}
			}
		}
		annotations, _, _ := unstructured.NestedStringMap(each.Object, "spec", "template", "metadata", "annotations")
		for name, image := range annotations {
			if strings.HasPrefix(name, relatedAnnotation) {
				found[each.GetName()+" "+name] = image
			}
		}
	}
	return found
}

func compareImages(before, after map[string]string) []string {
	var lines []string
	for at, image := range after {
		switch old, found := before[at]; {
		case !found:
			lines = append(lines, fmt.Sprintf("%s: new: %s", at, image))
		case old != image:
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", at, old, image))
		}
	}
	for at, image := range before {
		if _, found := after[at]; !found {
			lines = append(lines, fmt.Sprintf("%s: gone: %s", at, image))
		}
	}
	slices.Sort(lines)
	return lines
}

// permission is one thing that a role allows.
type permission struct{ role, group, resource, name, verb string }

func (p permission) String() string {
	what := p.resource
	if p.group != "" {
		what += "." + p.group
	}
	if p.name != "" {
		what += " " + p.name
	}
	return fmt.Sprintf("%s: %s %s", p.role, p.verb, what)
}

// covers reports whether p allows all that other does.
func (p permission) covers(other permission) bool {
	is := func(mine, its string) bool { return mine == its || mine == "*" }
	return p.role == other.role && is(p.group, other.group) && is(p.resource, other.resource) && is(p.verb, other.verb) &&
		(p.name == "" || p.name == other.name)
}

func permissionsOf(objects []*unstructured.Unstructured) map[permission]bool {
	found := map[permission]bool{}
	for _, each := range objects {
		if kind := each.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(each.Object, "rules")
		role := each.GetKind() + " " + each.GetName()
		for _, one := range rules {
			rule, _ := one.(map[string]any)
			for _, verb := range texts(rule["verbs"]) {
				for _, url := range texts(rule["nonResourceURLs"]) {
					found[permission{role: role, resource: url, verb: verb}] = true
				}
				for _, group := range texts(rule["apiGroups"]) {
					for _, resource := range texts(rule["resources"]) {
						for _, name := range orOne(texts(rule["resourceNames"])) {
							found[permission{role: role, group: group, resource: resource, name: name, verb: verb}] = true
						}
					}
				}
			}
		}
	}
	return found
}

func texts(list any) []string {
	entries, _ := list.([]any)
	found := make([]string, 0, len(entries))
	for _, each := range entries {
		if text, is := each.(string); is {
			found = append(found, text)
		}
	}
	return found
}

// orOne is a list, or one of nothing in particular.
func orOne(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

// missing are those of wanted that nothing in has allows.
func missing(wanted, has map[permission]bool) []string {
	var wide []permission // what may cover others than itself
	for each := range has {
		if each.group == "*" || each.resource == "*" || each.verb == "*" || each.name == "" {
			wide = append(wide, each)
		}
	}
	var lines []string
	for each := range wanted {
		if !has[each] && !slices.ContainsFunc(wide, func(w permission) bool { return w.covers(each) }) {
			lines = append(lines, each.String())
		}
	}
	slices.Sort(lines)
	return lines
}

func definitionsOf(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for _, each := range objects {
		if each.GetKind() == kindDefinition {
			found[each.GetName()] = each
		}
	}
	return found
}

func versionsOf(definition *unstructured.Unstructured) map[string]map[string]any {
	list, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	found := map[string]map[string]any{}
	for _, each := range list {
		if version, is := each.(map[string]any); is {
			found[fmt.Sprint(version["name"])] = version
		}
	}
	return found
}

func compareDefinitions(name string, before, after *unstructured.Unstructured) (warnings, errors []string) {
	current := versionsOf(after)
	for version, old := range versionsOf(before) {
		next, found := current[version]
		switch {
		case !found && old["storage"] == true:
			errors = append(errors, fmt.Sprintf("%s no longer has version %s, in which its objects are stored; update to a version of the operator between them first, and let it migrate them", name, version))
			continue
		case !found || old["served"] == true && next["served"] != true:
			warnings = append(warnings, fmt.Sprintf("%s no longer serves version %s", name, version))
			continue
		}
		oldSchema, _, _ := unstructured.NestedMap(old, "schema", "openAPIV3Schema")
		newSchema, _, _ := unstructured.NestedMap(next, "schema", "openAPIV3Schema")
		for _, each := range compareSchemas("", oldSchema, newSchema) {
			warnings = append(warnings, fmt.Sprintf("%s %s: %s", name, version, each))
		}
	}
	return warnings, errors
}

// compareSchemas tells what a schema no longer allows. It looks at what authors
// change: properties, types, enumerations and what is required.
func compareSchemas(at string, before, after map[string]any) []string {
	var lines []string
	say := func(format string, arguments ...any) {
		path := at
		if path == "" {
			path = "the object"
		}
		lines = append(lines, path+" "+fmt.Sprintf(format, arguments...))
	}
	if old, next := before["type"], after["type"]; old != nil && next != nil && !reflect.DeepEqual(old, next) {
		say("was of type %v and is now of type %v", old, next)
		return lines
	}
	if next, limited := after["enum"].([]any); limited {
		old, was := before["enum"].([]any)
		switch lost := slices.DeleteFunc(slices.Clone(old), func(v any) bool {
			return slices.ContainsFunc(next, func(n any) bool { return reflect.DeepEqual(v, n) })
		}); {
		case !was:
			say("may now only be one of %v", next)
		case len(lost) > 0:
			say("may no longer be %v", lost)
		}
	}
	for _, name := range texts(after["required"]) {
		if !slices.Contains(texts(before["required"]), name) {
			say("now requires %s", name)
		}
	}
	old, _ := before["properties"].(map[string]any)
	next, _ := after["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(old)) {
		path := strings.TrimPrefix(at+"."+name, ".")
		oldField, _ := old[name].(map[string]any)
		newField, found := next[name].(map[string]any)
		switch {
		case found:
			lines = append(lines, compareSchemas(path, oldField, newField)...)
		case after["x-kubernetes-preserve-unknown-fields"] != true:
			lines = append(lines, path+" was removed")
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		oldField, was := before[key].(map[string]any)
		newField, is := after[key].(map[string]any)
		if was && is {
			lines = append(lines, compareSchemas(at+"[]", oldField, newField)...)
		}
	}
	return lines
}
