package main

import (
	"fmt"
	"time"
)

// row is a row of the table.
type row struct {
	id, what string
	unit     unit
	target   float64 // the minimum ratio in Kelson's favor; 0: none
}

// unit is the unit of a row's values. Smaller values are better, except for rates.
type unit int

const (
	perSecond unit = iota
	duration       // nanoseconds
	mebibytes
	kibibytes
)

// figure is one side's value in a row.
type figure struct {
	measured bool
	value    float64
	cpu      time.Duration // the server's CPU time per operation; 0: unknown
	client   time.Duration // the client's CPU time per operation
	p99      time.Duration
	note     string
	failure  error // why the value is missing
}

// rows are the rows of the table, in order.
var rows = []row{
	{"start", "process start → `/readyz`", duration, 15},
	{"inprocess-start", "in-process start → first answer; envtest's start", duration, 150},
	{"inprocess-stop", "in-process stop; envtest's stop", duration, 50},
	{"memory-idle", "resident memory, idle", mebibytes, 5},
	{"memory-idle-own", "… its anonymous part", mebibytes, 0},
	{"memory-full", "resident memory after 10k ConfigMaps + 10k custom resources", mebibytes, 8},
	{"memory-full-own", "… its anonymous part", mebibytes, 0},
	{"create-cr-16", "create custom resource, 16 clients", perSecond, 8},
	{"create-cr-64", "create custom resource, 64 clients", perSecond, 8},
	{"status-cr-16", "update status of custom resource, 16 clients", perSecond, 8},
	{"status-cr-64", "update status of custom resource, 64 clients", perSecond, 8},
	{"patch-cr-16", "merge patch custom resource, 16 clients", perSecond, 8},
	{"patch-cr-64", "merge patch custom resource, 64 clients", perSecond, 8},
	{"apply-cr-16", "server-side apply custom resource, 16 clients", perSecond, 8},
	{"apply-cr-64", "server-side apply custom resource, 64 clients", perSecond, 8},
	{"delete-cr-16", "delete custom resource, 16 clients", perSecond, 8},
	{"delete-cr-64", "delete custom resource, 64 clients", perSecond, 8},
	{"create-cm-16", "create ConfigMap, 16 clients", perSecond, 4},
	{"create-cm-64", "create ConfigMap, 64 clients", perSecond, 4},
	{"get-cm-16", "get ConfigMap, 16 clients", perSecond, 6},
	{"get-cm-64", "get ConfigMap, 64 clients", perSecond, 6},
	{"get-cr-16", "get custom resource, 16 clients", perSecond, 8},
	{"get-cr-64", "get custom resource, 64 clients", perSecond, 8},
	{"list-cr", "LIST of 10k custom resources, JSON, to the last byte", duration, 30},
	{"watch-cm", "100 watchers × 1,000 creates of ConfigMaps by 16 clients: events", perSecond, 5},
	{"watch-cm-p99", "… p99 from the create's beginning to the event", duration, 5},
	{"watch-cr", "100 watchers × 1,000 creates of custom resources by 16 clients: events", perSecond, 5},
	{"watch-cr-p99", "… p99 from the create's beginning to the event", duration, 5},
	{"idle-watchers", "10,000 idle watchers: memory of each", kibibytes, 0},
	{"idle-watchers-events", "… then writes: events", perSecond, 0},
}

// show formats a value for the table.
func (u unit) show(f figure) string {
	if f.failure != nil {
		return "failed"
	}
	if !f.measured {
		return ""
	}
	s := ""
	switch u {
	case perSecond:
		s = thousands(f.value) + "/s"
	case duration:
		d := time.Duration(f.value)
		switch {
		case d < 10*time.Millisecond:
			d = d.Round(10 * time.Microsecond)
		case d < time.Second:
			d = d.Round(100 * time.Microsecond)
		default:
			d = d.Round(10 * time.Millisecond)
		}
		s = d.String()
	case mebibytes:
		s = fmt.Sprintf("%.0f MiB", f.value/(1<<20))
	case kibibytes:
		s = fmt.Sprintf("%.1f KiB", f.value/(1<<10))
	}
	if f.note != "" {
		s += " (" + f.note + ")"
	}
	return s
}

// ratio returns how many times better ours is.
func (u unit) ratio(theirs, ours figure) float64 {
	if !theirs.measured || !ours.measured || theirs.value == 0 || ours.value == 0 {
		return 0
	}
	if u == perSecond {
		return ours.value / theirs.value
	}
	return theirs.value / ours.value
}

func thousands(v float64) string {
	n := int64(v + 0.5)
	if n < 1000 {
		return fmt.Sprint(n)
	}
	s := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n >= 1000; n /= 1000 {
		s = fmt.Sprintf("%03d,%s", n%1000, s)
	}
	return fmt.Sprintf("%d,%s", n, s)
}
