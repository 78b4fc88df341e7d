package internal_test

import (
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/randomtest"
)

func TestSeedOfTheEnvironment(t *testing.T) {
	t.Setenv("KELSON_SEED", "18446744073709551615")
	assert.Equal(t, randomtest.Seed(t), 1<<64-1)
	t.Setenv("KELSON_SEED", "")
	first, second := randomtest.Seed(t), randomtest.Seed(t)
	if first == second {
		t.Error("the same random seed twice")
	}
}
