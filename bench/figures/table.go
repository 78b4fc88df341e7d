package main

import (
	"fmt"
	"strings"
)

// columns is the number of sides in a table. Each of Kelson's sides is compared with the side
// before it.
const columns = 4

// table describes one run: its sides and rows.
type table struct {
	name  string // as in "make bench": it stands in the page, around the part that the run writes
	sides [columns]side
	heads [columns]string
	rows  []row
	steps []step
	// idleSteps have their own server, on sides without durable writes.
	idleSteps []step
	// ahead means that the second pair has the target 1 instead of that of the row.
	ahead bool
}

// peerOf returns the column that column i is compared with.
func peerOf(i int) int { return i - 1 }

// target is the minimum ratio of a row in one of Kelson's columns; 0: none.
func (t *table) target(r row, column int) float64 {
	if t.ahead && column > 1 && r.target > 0 {
		return 1
	}
	return r.target
}

// headings returns the first line of the table.
func (t *table) headings() []string {
	heads := []string{"what", "at least"}
	for i, head := range t.heads {
		heads = append(heads, head)
		if t.sides[i].kelson {
			heads = append(heads, "better")
		}
	}
	return heads
}

func (t *table) begin() string { return fmt.Sprintf("<!-- written by make %s -->\n", t.name) }
func (t *table) end() string   { return fmt.Sprintf("<!-- end of what make %s writes -->\n", t.name) }

// alone compares one server of each kind, with its own storage.
var alone = table{
	name: "bench",
	sides: [columns]side{
		{name: "kube-apiserver + etcd", members: 1, durable: true},
		{name: "kelson", kelson: true, durable: true},
		{name: "kube-apiserver + etcd --unsafe-no-fsync", members: 1},
		{name: "kelson --in-memory", kelson: true},
	},
	heads:     [columns]string{"peer, fsync", "kelson, fsync", "peer, no fsync", "kelson, in memory"},
	rows:      rows,
	steps:     steps,
	idleSteps: idleSteps,
}

// overEtcd compares servers of both kinds over clusters of the same etcd. Each client has one
// server, and the clients are spread over all.
var overEtcd = table{
	name: "bench-etcd",
	sides: [columns]side{
		{name: "kube-apiserver, etcd", members: 1, durable: true},
		{name: "kelson, etcd", kelson: true, members: 1, durable: true},
		{name: "3 kube-apiservers, 3 members of etcd", servers: 3, members: 3, durable: true},
		{name: "3 kelsons, 3 members of etcd", kelson: true, servers: 3, members: 3, durable: true},
	},
	heads: [columns]string{"kube-apiserver, 1 member", "kelson, 1 member", "3 kube-apiservers, 3 members",
		"3 × kelson, 3 members"},
	rows:  rowsOverEtcd(),
	steps: steps,
	ahead: true,
}

// rowsOverEtcd returns the rows of overEtcd. The same etcd syncs the writes of both sides.
func rowsOverEtcd() (some []row) {
	for _, r := range rows {
		switch r.id {
		case "start", "inprocess-start", "inprocess-stop", "idle-watchers", "idle-watchers-events":
			continue
		}
		switch {
		case r.unit == mebibytes:
			r.target = 0 // etcd's memory is included
		case r.unit == perSecond && !strings.HasPrefix(r.id, "get-") && !strings.HasPrefix(r.id, "watch-"):
			r.target = 3
		}
		some = append(some, r)
	}
	return some
}
