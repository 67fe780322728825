package diagnosis

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestEveryReasonIsDocumented holds docs/concepts/conditions.md to the reasons
// that there are.
func TestEveryReasonIsDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/concepts/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, source := range []string{"diagnosis.go", "../condition/condition.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, is := node.(*ast.ValueSpec)
			if !is || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) != 1 {
				return true
			}
			literal, is := spec.Values[0].(*ast.BasicLit)
			if !is {
				return true // another package's constant
			}
			found++
			if reason, _ := strconv.Unquote(literal.Value); !strings.Contains(string(document), "`"+reason+"`") {
				t.Errorf("%s isn't documented", reason)
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("only %d reasons were found", found)
	}
}
