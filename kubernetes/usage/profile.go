package usage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotations of pods that declare the usage of their simulated containers. CPUAnnotation and
// MemoryAnnotation hold a profile for all containers of the pod together, which share it equally.
// With a dot and the name of a container appended, they hold the profile of that container.
const (
	CPUAnnotation    = "usage.kelson.dev/cpu"
	MemoryAnnotation = "usage.kelson.dev/memory"
)

// KWOK's annotations, with the usage of each container of the pod.
const (
	kwokCPU    = "kwok.x-k8s.io/usage-cpu"
	kwokMemory = "kwok.x-k8s.io/usage-memory"
)

// Profile is a declared usage. Make it with [ParseProfile]; the zero value is no usage.
type Profile struct {
	period time.Duration // 0: the first step always applies
	steps  []step
}

// step is the usage from an offset in the period to the offset of the next step.
type step struct {
	from   time.Duration
	value  resource.Quantity
	shared bool // by the replicas
}

// ParseProfile parses a profile:
//
//	250m                                  constant
//	2/replicas                            2, shared equally by the pods of the same controller
//	every 10m: 0s 100m, 4m 2/replicas     by schedule: 100m, from the fourth minute 2/replicas
//
// A schedule repeats with its period, which begins at the Unix epoch. The pods that share a usage
// are those that run, and have the same controller in their owner references.
func ParseProfile(text string) (Profile, error) {
	p, err := parse(strings.TrimSpace(text))
	if err != nil {
		return Profile{}, fmt.Errorf("usage %q: %w", text, err)
	}
	return p, nil
}

func parse(text string) (p Profile, err error) {
	schedule, repeated := strings.CutPrefix(text, "every ")
	if !repeated {
		s := step{}
		err = s.parse(text)
		return Profile{steps: []step{s}}, err
	}
	period, list, ok := strings.Cut(schedule, ":")
	if !ok {
		return p, errors.New(`want "every PERIOD: OFFSET USAGE, OFFSET USAGE, …"`)
	}
	if p.period, err = time.ParseDuration(strings.TrimSpace(period)); err != nil {
		return p, err
	}
	if p.period <= 0 {
		return p, errors.New("the period must be positive")
	}
	for each := range strings.SplitSeq(list, ",") {
		offset, value, ok := strings.Cut(strings.TrimSpace(each), " ")
		if !ok {
			return p, fmt.Errorf("step %q: want an offset and a usage", each)
		}
		s := step{}
		if s.from, err = time.ParseDuration(offset); err != nil {
			return p, err
		}
		if err := s.parse(strings.TrimSpace(value)); err != nil {
			return p, err
		}
		switch {
		case len(p.steps) == 0 && s.from != 0:
			return p, errors.New("the first step must begin at 0s")
		case len(p.steps) > 0 && s.from <= p.steps[len(p.steps)-1].from, s.from >= p.period:
			return p, fmt.Errorf("offset %s: offsets must increase and be less than the period", offset)
		}
		p.steps = append(p.steps, s)
	}
	return p, nil
}

func (s *step) parse(text string) (err error) {
	value, by, shared := strings.Cut(text, "/")
	if shared && by != "replicas" {
		return fmt.Errorf("%q: only /replicas can follow a quantity", text)
	}
	if s.value, err = resource.ParseQuantity(strings.TrimSpace(value)); err != nil {
		return err
	}
	if s.value.Sign() < 0 {
		return fmt.Errorf("%q: a usage must not be negative", text)
	}
	s.shared = shared
	return nil
}

// At returns the usage at a time, by one of a number of replicas.
func (p Profile) At(now time.Time, replicas int) resource.Quantity {
	if len(p.steps) == 0 {
		return resource.Quantity{}
	}
	current := p.steps[0]
	if p.period > 0 {
		offset := time.Duration(now.UnixNano() % int64(p.period))
		i, found := slices.BinarySearchFunc(p.steps, offset, func(s step, at time.Duration) int {
			return int(s.from - at)
		})
		if !found {
			i--
		}
		current = p.steps[i]
	}
	if current.shared {
		return share(current.value, replicas)
	}
	return current.value
}

// share returns an equal part of a quantity.
func share(q resource.Quantity, parts int) resource.Quantity {
	if parts <= 1 {
		return q
	}
	if q.Value() < 1<<40 { // more digits than a processor's thousandth matter only for small values
		return *resource.NewMilliQuantity(q.MilliValue()/int64(parts), q.Format)
	}
	return *resource.NewQuantity(q.Value()/int64(parts), q.Format)
}
