package arch

import (
	"fmt"
	"slices"
	"strings"
)

// graph is each package's direct imports, tests left out.
type graph map[string][]string

// rule finds the breaches of one rule of the rooms.
type rule struct {
	name  string
	check func(graph) []string
}

// rules are the rules on imports, in the order of the design's section 2.
var rules = []rule{
	{"every package is in a room", unknownRooms},
	{"api holds types and nothing else", apiImports},
	{"imports go from the edges to the pure rooms", upwardImports},
	{"pure rooms have no effects", effectfulImports},
	{"apply knows nothing of Helm", applyKnowsHelm},
	{"only the helm room imports the Helm SDK", helmImporters},
	{"no controller imports another", controllerImports},
	{"rooms of plain HTTP know no Kubernetes", kubernetesImports},
	{"names say what is inside", junkNames},
}

// own lists the packages of the module, sorted.
func (g graph) own() []string {
	list := []string{}
	for pkg := range g {
		if _, outside := path(pkg); !outside {
			list = append(list, pkg)
		}
	}
	slices.Sort(list)
	return list
}

// chain returns a shortest chain of imports from a package to one that matches,
// both included, or nil.
func (g graph) chain(from string, matches func(string) bool) []string {
	before := map[string]string{from: ""}
	queue := []string{from}
	for len(queue) > 0 {
		pkg := queue[0]
		queue = queue[1:]
		for _, next := range g[pkg] {
			if _, seen := before[next]; seen {
				continue
			}
			before[next] = pkg
			if matches(next) {
				found := []string{}
				for at := next; at != ""; at = before[at] {
					found = append(found, at)
				}
				slices.Reverse(found)
				return found
			}
			queue = append(queue, next)
		}
	}
	return nil
}

// forEach collects the breaches among the imports of the module's own packages.
func (g graph) forEach(breach func(pkg, imported string) string) []string {
	found := []string{}
	for _, pkg := range g.own() {
		for _, imported := range slices.Sorted(slices.Values(g[pkg])) {
			if text := breach(pkg, imported); text != "" {
				found = append(found, text)
			}
		}
	}
	return found
}

func unknownRooms(g graph) []string {
	found := []string{}
	for _, pkg := range g.own() {
		if _, known := room(pkg); !known {
			found = append(found, pkg+" is in no room; put it into one, or enter a new room in test/arch/rooms.go and explain it in docs/adr")
		}
	}
	return found
}

func apiImports(g graph) []string {
	allowed := []string{"k8s.io/apimachinery", "k8s.io/api", "k8s.io/apiextensions-apiserver/pkg/apis", module + "/api"}
	return g.forEach(func(pkg, imported string) string {
		if name, _ := room(pkg); name != "api" || isStandard(imported) && !isEffect(imported) {
			return ""
		}
		if slices.ContainsFunc(allowed, func(prefix string) bool { return under(imported, prefix) }) {
			return ""
		}
		return fmt.Sprintf("%s imports %s; api imports apimachinery and api types only", pkg, imported)
	})
}

func upwardImports(g graph) []string {
	return g.forEach(func(pkg, imported string) string {
		from, known := room(pkg)
		to, inModule := room(imported)
		if !known || !inModule || rooms[to] <= rooms[from] {
			return ""
		}
		return fmt.Sprintf("%s (%s) imports %s (%s)", pkg, rooms[from], imported, rooms[to])
	})
}

func effectfulImports(g graph) []string {
	return g.forEach(func(pkg, imported string) string {
		name, known := room(pkg)
		if !known || rooms[name] != pure || !isEffect(imported) {
			return ""
		}
		return fmt.Sprintf("%s imports %s; a pure room is given what it needs", pkg, imported)
	})
}

func applyKnowsHelm(g graph) []string {
	found := []string{}
	for _, pkg := range g.own() {
		if name, _ := room(pkg); name != "internal/apply" {
			continue
		}
		chain := g.chain(pkg, func(to string) bool {
			return strings.HasPrefix(to, "helm.sh/") || under(to, module+"/internal/helm")
		})
		if chain != nil {
			found = append(found, strings.Join(chain, " imports "))
		}
	}
	return found
}

func helmImporters(g graph) []string {
	return g.forEach(func(pkg, imported string) string {
		if name, _ := room(pkg); name == "internal/helm" || !strings.HasPrefix(imported, "helm.sh/") {
			return ""
		}
		return fmt.Sprintf("%s imports %s; only internal/helm does", pkg, imported)
	})
}

func controllerImports(g graph) []string {
	const list = module + "/internal/controller"
	return g.forEach(func(pkg, imported string) string {
		if !under(pkg, list) || pkg == list || !under(imported, list) {
			return ""
		}
		mine, _, _ := strings.Cut(strings.TrimPrefix(pkg, list+"/"), "/")
		if imported != list && under(imported, list+"/"+mine) {
			return ""
		}
		return fmt.Sprintf("%s imports %s; what they share belongs to a room below", pkg, imported)
	})
}

func kubernetesImports(g graph) []string {
	found := []string{}
	for _, pkg := range g.own() {
		if name, _ := room(pkg); !slices.Contains(withoutKubernetes, name) {
			continue
		}
		chain := g.chain(pkg, func(to string) bool {
			return slices.ContainsFunc(kubernetes, func(prefix string) bool { return strings.HasPrefix(to, prefix) })
		})
		if chain != nil {
			found = append(found, strings.Join(chain, " imports "))
		}
	}
	return found
}

func junkNames(g graph) []string {
	found := []string{}
	for _, pkg := range g.own() {
		for _, element := range strings.Split(strings.TrimPrefix(pkg, module), "/") {
			if slices.Contains(junk, element) {
				found = append(found, fmt.Sprintf("%s: %q names no thing; call it after what it holds", pkg, element))
			}
		}
	}
	return found
}

// isStandard says whether a package is the standard library's: its path has no
// domain.
func isStandard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// breaches are the breaches of every rule, by the rule's name.
func breaches(g graph) map[string][]string {
	found := map[string][]string{}
	for _, rule := range rules {
		if list := rule.check(g); len(list) > 0 {
			found[rule.name] = list
		}
	}
	return found
}
