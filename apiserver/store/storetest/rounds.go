package storetest

import (
	"os"
	"strconv"
	"testing"
)

// Rounds returns how often to repeat a randomized test: n times, with -short a fifth of that,
// multiplied by the environment variable KELSON_FAULTS for long runs.
func Rounds(t testing.TB, n int) int {
	if times, err := strconv.Atoi(os.Getenv("KELSON_FAULTS")); err == nil && times > 0 {
		return n * times
	}
	if testing.Short() {
		return max(n/5, 1)
	}
	return n
}
