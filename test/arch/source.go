package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of source text, in lines. Tests and generated files have none.
const (
	maxFunction = 80
	maxFile     = 600
	maxMain     = 29
)

// clocks are functions that read the clock or wait on it. Pure rooms and
// engines are given a time or a clock.
var clocks = []string{"Now", "Sleep", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// source finds the breaches in the Go files below root: functions and files
// that are too long, work in init, and effects in pure rooms.
func source(root fs.FS) ([]string, error) {
	found := []string{}
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			skip := []string{".git", "bin", "dist", "testdata", "node_modules"}
			if path != "." && (slices.Contains(skip, entry.Name()) || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		breaches, err := file(path, content)
		found = append(found, breaches...)
		return err
	})
	return found, err
}

// file finds the breaches in one Go file.
func file(path string, content []byte) ([]string, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	found := []string{}
	lines := strings.Count(string(content), "\n")
	if lines > maxFile {
		found = append(found, fmt.Sprintf("%s has %d lines; at most %d", path, lines, maxFile))
	}
	if strings.HasPrefix(path, "cmd/") && lines > maxMain {
		found = append(found, fmt.Sprintf("%s has %d lines; a main has at most %d", path, lines, maxMain))
	}
	for _, declaration := range parsed.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		position := set.Position(function.Pos())
		length := set.Position(function.End()).Line - position.Line + 1
		if length > maxFunction {
			found = append(found, fmt.Sprintf("%s: %s has %d lines; at most %d", position, function.Name.Name, length, maxFunction))
		}
		if function.Recv == nil && function.Name.Name == "init" {
			found = append(found, fmt.Sprintf("%s: init; wiring is one visible list, called by main", position))
		}
	}
	return append(found, effectUse(set, path, parsed)...), nil
}

// effectUse finds, in a pure room, calls of the clock and uses of net/http that
// are more than its constants.
func effectUse(set *token.FileSet, path string, parsed *ast.File) []string {
	name, known := room(module + "/" + filepath.ToSlash(filepath.Dir(path)))
	if !known || rooms[name] != pure {
		return nil
	}
	found := []string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		used := selector.Sel.Name
		constant := strings.HasPrefix(used, "Status") || strings.HasPrefix(used, "Method")
		if pkg.Name == "time" && slices.Contains(clocks, used) || pkg.Name == "http" && !constant {
			found = append(found, fmt.Sprintf("%s: %s.%s in a pure room; it is given what it needs", set.Position(node.Pos()), pkg.Name, used))
		}
		return true
	})
	return found
}
