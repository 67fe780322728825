package bundle

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// mergeValues is fresh with what the user has changed from base to mine.
func (u *Updated) mergeValues(at string, base, mine, fresh map[string]any) map[string]any {
	merged := map[string]any{}
	for name, value := range fresh {
		merged[name] = value
	}
	for _, name := range sortedNames(mine) {
		here := strings.TrimPrefix(at+"."+name, ".")
		old, wasThere := base[name]
		own, now := mine[name], fresh[name]
		_, known := fresh[name]
		if wasThere && reflect.DeepEqual(own, old) {
			continue
		}
		ownMap, ownIs := own.(map[string]any)
		nowMap, nowIs := now.(map[string]any)
		oldMap, _ := old.(map[string]any)
		switch {
		case ownIs && nowIs:
			merged[name] = u.mergeValues(here, oldMap, ownMap, nowMap)
		case known || !fixed(at) || at == "" && name == "global":
			merged[name] = own
			u.Kept = append(u.Kept, here)
		default:
			u.Dropped = append(u.Dropped, here)
		}
	}
	for _, name := range sortedNames(base) {
		// What the user took out of a free map (a node selector, a limit) stays out.
		if _, still := mine[name]; !still && !fixed(at) {
			if _, there := merged[name]; there {
				delete(merged, name)
				u.Kept = append(u.Kept, strings.TrimPrefix(at+"."+name, ".")+" (removed)")
			}
		}
	}
	return merged
}

// fixed reports whether the chart says which names a map of values may have. The
// others, node selectors and resources, take any.
func fixed(at string) bool {
	for _, free := range []string{".nodeSelector", ".resources", ".limits", ".requests"} {
		if strings.HasSuffix(at, free) || strings.HasPrefix(at, "global") {
			return false
		}
	}
	return true
}

// Print writes what an update changes, a line for each.
func (u Updated) Print(out io.Writer) {
	fmt.Fprintf(out, "version: %s -> %s\n", u.From, u.To)
	for _, each := range []struct {
		title string
		lines []string
	}{
		{"image", u.Images}, {"permission gained", u.Gained}, {"permission lost", u.Lost}, {"your value kept", u.Kept},
		{"your value has no place any more", u.Dropped}, {"warning", u.Warnings}, {"error", u.Errors},
	} {
		for _, line := range each.lines {
			fmt.Fprintf(out, "%s: %s\n", each.title, line)
		}
	}
}
