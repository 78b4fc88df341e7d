package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// ParseLimits parses limits such as 24h, 7d or 10GiB. Both kinds may be given.
func ParseLimits(texts ...string) (Limits, error) {
	var l Limits
	for _, text := range texts {
		if age, ok := parseAge(text); ok {
			if l.Age != 0 {
				return Limits{}, fmt.Errorf("%q: there is an age already", text)
			}
			if l.Age = age; age < minLimitsAge {
				return Limits{}, fmt.Errorf("%q: an age must be at least %v", text, minLimitsAge)
			}
			continue
		}
		size, err := apiresource.ParseQuantity(strings.TrimSuffix(text, "B"))
		switch {
		case err != nil:
			return Limits{}, fmt.Errorf("%q: want an age such as 24h or 7d, or a size such as 10GiB", text)
		case l.Bytes != 0:
			return Limits{}, fmt.Errorf("%q: there is a size already", text)
		case size.Value() < minLimitsBytes:
			return Limits{}, fmt.Errorf("%q: a size must be at least 1MiB", text)
		}
		l.Bytes = size.Value()
	}
	return l, nil
}

// parseAge parses a duration, also in days.
func parseAge(text string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && text != "0"
}
