package fileguard

import "github.com/fencedlock/fencedlock/internal/child"

func worker(s *child.Self) error { return nil }
func killed(s *child.Self) error { return nil }
