package controller

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule determines when Jobs are due.
type Schedule struct{ cron.Schedule }

// ParseSchedule parses a schedule in cron's format.
func ParseSchedule(text string) (Schedule, error) {
	s, err := cron.ParseStandard(text)
	return Schedule{s}, err
}

// maxCounted is the maximum number of due times that are counted one by one.
const maxCounted = 100

// due describes the runs that were due in a time span.
type due struct {
	last  time.Time
	times int
}

// due examines the time span that begins after since and ends with now.
func (s Schedule) due(since, now time.Time) due {
	var d due
	for next := s.Next(since); !next.IsZero() && !next.After(now); next = s.Next(next) {
		d.last, d.times = next, d.times+1
		if d.times == maxCounted { // after a long absence, skip the middle
			if step := s.Next(next).Sub(next); now.Sub(next) > maxCounted*step {
				next = now.Add(-maxCounted * step)
			}
		}
	}
	return d
}
