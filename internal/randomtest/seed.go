// Package randomtest chooses the seeds of tests that make random choices.
package randomtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns the value of the environment variable KELSON_SEED, or a random seed if it is not
// set. It logs the seed, so that a failed test shows how to repeat its choices. Without synctest,
// the interleaving of goroutines is not repeated.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("KELSON_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("KELSON_SEED: %v", err)
		}
	}
	t.Logf("repeat with KELSON_SEED=%d", seed)
	return seed
}
