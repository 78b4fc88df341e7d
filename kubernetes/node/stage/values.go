package stage

import (
	"context"
	"strconv"
	"time"
)

// durationValue is a duration that is fixed or comes from the object.
type durationValue struct {
	fixed *time.Duration
	from  source
}

func newDuration(milliseconds *int64, from *ExpressionFrom) (d durationValue, err error) {
	if milliseconds != nil {
		fixed := time.Duration(*milliseconds) * time.Millisecond
		d.fixed = &fixed
	}
	if from != nil {
		d.from, err = newSource(from)
	}
	return d, err
}

// get returns the duration from now; ok is false if there is none.
func (d durationValue) get(ctx context.Context, o *Object, now time.Time) (_ time.Duration, ok bool) {
	if d.from != nil {
		if value, ok := d.from(ctx, o); ok {
			switch v := value.(type) {
			case string:
				if v == "" {
					return 0, false
				}
				if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
					return at.Sub(now), true
				}
				if length, err := time.ParseDuration(v); err == nil {
					return length, true
				}
			case time.Duration:
				return v, true
			case time.Time:
				return v.Sub(now), true
			case int64:
				return time.Duration(v), true
			}
		}
	}
	if d.fixed == nil {
		return 0, false
	}
	return *d.fixed, true
}

// weightValue is a weight that is fixed or comes from the object.
type weightValue struct {
	fixed int64
	from  source
}

// get returns the weight; ok is false if the object specifies none.
func (w weightValue) get(ctx context.Context, o *Object) (_ int64, ok bool) {
	if w.from == nil {
		return w.fixed, true
	}
	value, ok := w.from(ctx, o)
	if !ok {
		return w.fixed, true
	}
	switch v := value.(type) {
	case string:
		n, err := strconv.ParseInt(v, 0, 0)
		return n, err == nil
	case float64:
		return int64(v), true
	case int:
		return int64(v), true
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return w.fixed, true
}
