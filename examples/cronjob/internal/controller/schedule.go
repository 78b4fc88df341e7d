package controller

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule says when Jobs are due.
type Schedule struct{ cron.Schedule }

// ParseSchedule reads a schedule in the format of cron.
func ParseSchedule(text string) (Schedule, error) {
	s, err := cron.ParseStandard(text)
	return Schedule{s}, err
}

// enough times are counted one by one.
const enough = 100

// due is what was due in a span of time.
type due struct {
	last  time.Time
	times int
}

// due looks at the span from after since until now.
func (s Schedule) due(since, now time.Time) due {
	var d due
	for next := s.Next(since); !next.IsZero() && !next.After(now); next = s.Next(next) {
		d.last, d.times = next, d.times+1
		if d.times == enough { // after a long time away the middle is left out
			if step := s.Next(next).Sub(next); now.Sub(next) > enough*step {
				next = now.Add(-enough * step)
			}
		}
	}
	return d
}
