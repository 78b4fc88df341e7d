package flowcontrol

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apiserver/pkg/util/flowcontrol/debug"
)

// Pages returns the state of the queues at the paths and in the format of Kubernetes' debug pages.
func (c *Controller) Pages() map[string]http.Handler {
	const below = "/debug/api_priority_and_fairness/"
	page := func(write func(io.Writer, *http.Request)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			table := tabwriter.NewWriter(w, 8, 0, 1, ' ', 0)
			write(table, req)
			_ = table.Flush() // the client has closed the connection
		})
	}
	return map[string]http.Handler{
		below + "dump_priority_levels": page(c.dumpLevels),
		below + "dump_queues":          page(c.dumpQueues),
		below + "dump_requests":        page(c.dumpRequests),
	}
}

// each calls show for each level, ordered by name.
func (c *Controller) each(show func(name string, draining bool, d debug.QueueSetDump)) {
	cfg := c.configuration()
	for _, name := range slices.Sorted(maps.Keys(cfg.levels)) {
		show(name, cfg.draining[name], cfg.levels[name].snapshot())
	}
}

func (c *Controller) dumpLevels(w io.Writer, _ *http.Request) {
	row(w, "PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests",
		"DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests")
	dispatched, rejected := c.totals()
	c.each(func(name string, draining bool, d debug.QueueSetDump) {
		active := 0
		for _, q := range d.Queues {
			if len(q.Requests) > 0 {
				active++
			}
		}
		row(w, name, active, d.Waiting == 0 && d.Executing == 0, draining, d.Waiting, d.Executing, dispatched[name],
			rejected[name], d.Timedout, d.Cancelled)
	})
}

// totals counts the requests of each level since the start.
func (c *Controller) totals() (dispatched, rejected map[string]uint64) {
	dispatched, rejected = map[string]uint64{}, map[string]uint64{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range c.counted {
		dispatched[key.level] += n.dispatched.Load()
		rejected[key.level] += n.full.Load() + n.limited.Load() + n.timedOut.Load()
	}
	return dispatched, rejected
}

func (c *Controller) dumpQueues(w io.Writer, _ *http.Request) {
	row(w, "PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR",
		"InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum")
	c.each(func(name string, _ bool, d debug.QueueSetDump) {
		for i, q := range d.Queues {
			row(w, name, i, len(q.Requests), q.ExecutingRequests, q.SeatsInUse, q.NextDispatchR,
				q.QueueSum.InitialSeatsSum, q.QueueSum.MaxSeatsSum, q.QueueSum.TotalWorkSum)
		}
	})
}

func (c *Controller) dumpRequests(w io.Writer, req *http.Request) {
	details := req.URL.Query().Get("includeRequestDetails") != ""
	// Kubernetes misspells the distinguisher, too.
	columns := []any{"PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher",
		"ArriveTime", "InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"}
	if details {
		columns = append(columns, "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource",
			"SubResource")
	}
	row(w, columns...)
	c.each(func(name string, _ bool, d debug.QueueSetDump) {
		show := func(queue, index int, r debug.RequestDump) {
			columns := []any{name, r.MatchedFlowSchema, queue, index, r.FlowDistinguisher,
				r.ArriveTime.UTC().Format(time.RFC3339Nano), r.WorkEstimate.InitialSeats,
				r.WorkEstimate.FinalSeats, r.WorkEstimate.AdditionalLatency, r.StartTime.UTC().Format(time.RFC3339Nano)}
			if info := r.RequestInfo; details {
				columns = append(columns, r.UserName, info.Verb, info.Path, info.Namespace, info.Name,
					strings.TrimPrefix(info.APIGroup+"/"+info.APIVersion, "/"), info.Resource, info.Subresource)
			}
			row(w, columns...)
		}
		for i, q := range d.Queues {
			for j, r := range q.Requests {
				show(i, j, r)
			}
			for _, r := range q.RequestsExecuting {
				show(i, -1, r)
			}
		}
		for _, r := range d.QueuelessExecutingRequests {
			show(-1, -1, r)
		}
	})
}

func row(w io.Writer, columns ...any) {
	fmt.Fprintf(w, strings.TrimSuffix(strings.Repeat("%v,\t", len(columns)), ",\t")+"\n", columns...)
}
