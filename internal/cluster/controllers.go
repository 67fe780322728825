package cluster

import "context"

func (s *supervision) runControllers(ctx context.Context) {}
