package llmd

import "github.com/slipway-dev/slipway/internal/diagnosis"

// Levers are the words for what the user of an Llmd can change of a component's
// workloads. Which of a chart's values it is only the chart knows.
func Levers(c Component) diagnosis.Levers {
	return diagnosis.ChartLevers(func(what string) string { return what + " in " + field(c) + ".values" })
}
