// Package charts holds the operator's own chart inside the binary, so that
// installing it needs no file and no network. It knows nothing of Helm.
package charts

import "embed"

// Operator is the directory of the chart.
const Operator = "llm-operator"

// CRDs is the directory of the definitions of every kind, one in each file.
const CRDs = Operator + "/crds"

// Files holds the chart under the directory Operator. `all:` takes in the files
// that begin with an underscore.
//
//go:embed all:llm-operator
var Files embed.FS
