package helmrelease

import (
	"context"
	"errors"
)

// Runner runs releases. It is safe for concurrent use on different releases.
type Runner struct{ options Options }

// New makes a runner.
func New(options Options) *Runner { return &Runner{options: options} }

func (r *Runner) run(context.Context, Want) (Report, error) {
	return Report{}, errors.New("releases can't be run yet")
}
