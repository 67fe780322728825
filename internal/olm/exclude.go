package olm

import (
	"context"
	"fmt"
	"time"

	"github.com/itchyny/gojq"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/object"
)

// excludeTime bounds what one expression may take for one object.
const excludeTime = time.Second

// Exclusion is a jq expression that says which objects are left out: those for
// which it gives true.
type Exclusion struct {
	text string
	code *gojq.Code
}

// ParseExclusion reads an expression such as `.kind == "ConsoleCLIDownload"`. It
// can read nothing but the object: no environment, no files.
func ParseExclusion(text string) (Exclusion, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		return Exclusion{}, fmt.Errorf("%q isn't a jq expression: %w; write it like '.kind == \"ConsoleCLIDownload\"'", text, oneLine(err))
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return Exclusion{}, fmt.Errorf("%q isn't a jq expression: %w; write it like '.kind == \"ConsoleCLIDownload\"'", text, oneLine(err))
	}
	return Exclusion{text: text, code: code}, nil
}

// Exclude leaves out the objects that one of the expressions is true for. An
// expression that fails, or gives something other than true, false or null, is
// an error: it would else keep silently what someone wanted out.
func Exclude(ctx context.Context, objects []*unstructured.Unstructured, exclusions []Exclusion) ([]*unstructured.Unstructured, error) {
	kept := make([]*unstructured.Unstructured, 0, len(objects))
	for _, each := range objects {
		out := false
		for _, exclusion := range exclusions {
			matches, err := exclusion.matches(ctx, each)
			if err != nil {
				return nil, err
			}
			out = out || matches
		}
		if !out {
			kept = append(kept, each)
		}
	}
	return kept, nil
}

func (e Exclusion) matches(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, excludeTime)
	defer cancel()
	results := e.code.RunWithContext(ctx, plain(obj.Object))
	first, gave := results.Next()
	if !gave {
		return false, nil
	}
	switch value := first.(type) {
	case nil:
		return false, nil
	case bool:
		return value, nil
	case error:
		return false, fmt.Errorf("%q fails for %s: %w", e.text, object.Of(obj).Display(), oneLine(value))
	default:
		return false, fmt.Errorf("%q gives %v for %s; it must give true or false", e.text, value, object.Of(obj).Display())
	}
}

// plain is a copy with the numbers that jq knows.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		made := make(map[string]any, len(v))
		for key, each := range v {
			made[key] = plain(each)
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i, each := range v {
			made[i] = plain(each)
		}
		return made
	case int64:
		return int(v)
	default:
		return v
	}
}
