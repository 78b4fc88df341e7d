package storetest

import (
	"os"
	"strconv"
	"testing"
)

// Rounds says how often a test that depends on chance is repeated: n times, a fifth of it with
// -short, and as many times more as the environment variable KELSON_FAULTS says, for long runs.
func Rounds(t testing.TB, n int) int {
	if times, err := strconv.Atoi(os.Getenv("KELSON_FAULTS")); err == nil && times > 0 {
		return n * times
	}
	if testing.Short() {
		return max(n/5, 1)
	}
	return n
}
