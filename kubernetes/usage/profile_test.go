package usage

import (
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A profile gives the usage at a time: constant, divided by the replicas, or according to a
// schedule that repeats.
func TestProfiles(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		when, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return when
	}
	const schedule = "every 10m: 0s 100m, 4m 2/replicas , 5m30s 0"
	for _, test := range []struct {
		profile  string
		at       string
		replicas int
		want     string
	}{
		{"250m", "2026-01-01T00:00:00Z", 3, "250m"},
		{" 1Gi ", "2026-01-01T00:00:00Z", 1, "1Gi"},
		{"2/replicas", "2026-01-01T00:00:00Z", 4, "500m"},
		{"2/replicas", "2026-01-01T00:00:00Z", 0, "2"},
		{"8Ti/replicas", "2026-01-01T00:00:00Z", 2, "4Ti"},
		{schedule, "2026-01-01T00:00:00Z", 1, "100m"},
		{schedule, "2026-01-01T00:03:59Z", 1, "100m"},
		{schedule, "2026-01-01T00:04:00Z", 4, "500m"},
		{schedule, "2026-01-01T00:05:29Z", 4, "500m"},
		{schedule, "2026-01-01T00:05:30Z", 4, "0"},
		{schedule, "2026-01-01T00:19:59Z", 4, "0"},
		{schedule, "2026-01-01T00:20:00Z", 4, "100m"},
	} {
		p, err := ParseProfile(test.profile)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := p.At(at(test.at), test.replicas); got.String() != test.want {
			t.Errorf("%q at %s with %d replicas: %s, want %s", test.profile, test.at, test.replicas, got.String(),
				test.want)
		}
	}
}

func TestInvalidProfiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "quantities must match",
		"much":                     "quantities must match",
		"-1":                       "must not be negative",
		"1/pods":                   "only /replicas",
		"every 10m":                "want \"every PERIOD",
		"every x: 0s 1":            "invalid duration",
		"every 0s: 0s 1":           "must be positive",
		"every 10m: 1m 1":          "must begin at 0s",
		"every 10m: 0s":            "want an offset and a usage",
		"every 10m: 0s 1, 0s 2":    "must increase",
		"every 10m: 0s 1, 10m 2":   "less than the period",
		"every 10m: 0s 1, 5m much": "quantities must match",
	} {
		_, err := ParseProfile(text)
		assert.ErrorContainsf(t, err, want, "%q", text)
	}
}
