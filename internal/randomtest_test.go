package internal_test

import (
	"testing"

	"kelson.dev/internal/randomtest"
)

func TestSeedOfTheEnvironment(t *testing.T) {
	t.Setenv("KELSON_SEED", "18446744073709551615")
	if got := randomtest.Seed(t); got != 1<<64-1 {
		t.Errorf("got %d", got)
	}
	t.Setenv("KELSON_SEED", "")
	first, second := randomtest.Seed(t), randomtest.Seed(t)
	if first == second {
		t.Error("the same random seed twice")
	}
}
