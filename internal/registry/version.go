package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// wanted is a version as someone asked for it: exact, or a constraint.
type wanted struct {
	text       string
	exact      *semver.Version
	constraint *semver.Constraints
}

// parseVersion reads what stands in Chart.Version.
func parseVersion(text string) (wanted, error) {
	text = strings.TrimSpace(text)
	if exact, err := semver.StrictNewVersion(strings.TrimPrefix(text, "v")); err == nil {
		return wanted{text: text, exact: exact}, nil
	}
	asked := text
	if asked == "" {
		asked = "*"
	}
	constraint, err := semver.NewConstraint(asked)
	if err != nil {
		return wanted{}, &InvalidError{fmt.Sprintf("version %q is neither a version nor a constraint; write it like 1.3.3, ~1.3 or >=1.2 <2", text)}
	}
	return wanted{text: text, constraint: constraint}, nil
}

// allows says whether a published version is one that was asked for. Of an exact
// version even the build metadata must be the same.
func (w wanted) allows(published *semver.Version) bool {
	if w.exact != nil {
		return published.Equal(w.exact) && published.Metadata() == w.exact.Metadata()
	}
	return w.constraint.Check(published)
}

// choose returns the index of the newest allowed one of versions, as a repository
// writes them; what is no version is passed over. Otherwise the error names those
// that are there.
func (w wanted) choose(repository, name string, versions []string) (int, error) {
	best := -1
	var newest *semver.Version
	parsed := []*semver.Version{}
	for i, text := range versions {
		version, err := semver.NewVersion(text)
		if err != nil {
			continue
		}
		parsed = append(parsed, version)
		if w.allows(version) && (newest == nil || version.GreaterThan(newest)) {
			best, newest = i, version
		}
	}
	if best >= 0 {
		return best, nil
	}
	slices.SortStableFunc(parsed, func(a, b *semver.Version) int { return b.Compare(a) })
	missing := &NotFoundError{Repository: repository, Name: name, Version: w.text}
	for _, version := range parsed {
		missing.Versions = append(missing.Versions, version.Original())
	}
	missing.Versions = slices.Compact(missing.Versions)
	return 0, missing
}

// sameVersion compares two versions without regard to a leading v.
func sameVersion(a, b string) bool {
	return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v")
}
