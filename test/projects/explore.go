package main

import (
	"context"
	"fmt"
	"strings"
)

// explore makes the checks of kelson explore that need no build: it starts a control plane with the
// definitions, rights and webhooks of a project, and creates its samples.
func (c *checker) explore(ctx context.Context, dir string) cell {
	out, err := c.command(ctx, dir, "explore", "--check", "--generate=false")
	if err != nil {
		return cell{false, message(out, err)}
	}
	if n := strings.Count(out, "\nwarning: "); n > 0 {
		return cell{true, fmt.Sprintf("ok, %d warnings\n%s", n, strings.TrimSpace(out))}
	}
	return cell{true, "ok"}
}
