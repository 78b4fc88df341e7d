package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/kubernetes/controlplane"
)

// State is the state of a cluster at one moment, in memory. It does not change.
type State struct {
	store   *store.Store
	at      *store.Snapshot
	name    string // of the cluster
	objects int
	nodes   bool // it has any
	notes   []string
}

// omitted are resources that a copy of a cluster does not have. With the cluster's Leases,
// operators would wait for leaders, and nodes would be considered dead. The control plane of the
// copy writes or measures the other resources itself.
var omitted = []string{
	"events", "events.events.k8s.io", "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io",
	"apiservices.apiregistration.k8s.io",
	"componentstatuses", "nodes.metrics.k8s.io", "pods.metrics.k8s.io", "storageversions.internal.apiserver.k8s.io",
	"storageversionmigrations.storagemigration.k8s.io",
}

// maxEvents is the maximum number of writes of a run that its recorder may lag behind.
const maxEvents = 1 << 20

// newState loads records. It keeps their data.
func newState(name string, records []store.Record, notes []string) (*State, error) {
	records = slices.DeleteFunc(records, func(r store.Record) bool { return slices.Contains(omitted, r.Key.Resource) })
	s := &State{name: name, objects: len(records), notes: notes}
	for i := range records {
		s.nodes = s.nodes || records[i].Key.Resource == "nodes"
		if err := refuseConversions(&records[i], &s.notes); err != nil {
			return nil, err
		}
	}
	var err error
	s.store, err = store.Open(store.Config{Backend: loaded(records), Retain: maxEvents, Budget: func(int64) int64 {
		return 1 << 30
	}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("load the state of %s: %w", name, err)
	}
	s.at = s.store.Snapshot()
	return s, nil
}

// Close releases the memory of the state. Running control planes keep their copies.
func (s *State) Close() error { return s.store.Close() }

// Len returns the number of objects.
func (s *State) Len() int { return s.objects }

// Notes describes what the state lacks.
func (s *State) Notes() []string { return slices.Clone(s.notes) }

// Backup reads a state that kelson data backup has written. The name describes it in plans.
func Backup(r io.Reader, name string) (*State, error) {
	var records []store.Record
	_, err := archive.Read(r, func(rec store.Record) error {
		rec.Data = slices.Clone(rec.Data)
		records = append(records, rec)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read backup %s: %w", name, err)
	}
	return newState(name, records, nil)
}

// loaded is a store.Backend that holds records and forgets writes.
type loaded []store.Record

var _ store.Backend = loaded(nil)

// Load implements store.Backend.
func (l loaded) Load(each func(store.Record) error) (revision uint64, err error) {
	for _, r := range l {
		if err := each(r); err != nil {
			return 0, fmt.Errorf("%s %s: %w", r.Key.Resource, strings.TrimPrefix(r.Key.Namespace+"/"+r.Key.Name, "/"),
				err)
		}
		revision = max(revision, r.Revision)
	}
	return revision, nil
}

// Append implements store.Backend.
func (loaded) Append([]store.Record) error {
	return errors.New("plan: the state of a cluster does not change")
}

// Checkpoint implements store.Backend.
func (loaded) Checkpoint() func(context.Context, iter.Seq[store.Record]) error { return nil }

// Close implements store.Backend.
func (loaded) Close() error { return nil }

// omittedControllers lists the controllers that do not run on a copy: they react to the passing of
// time, the health of nodes, and measurements, which a copy does not have.
var omittedControllers = []string{
	"-taint-eviction-controller", "-pod-garbage-collector-controller", "-node-ipam-controller",
	"-cronjob-controller", "-horizontal-pod-autoscaler-controller", "-ttl-after-finished-controller", "*",
}

// fork starts a control plane on a copy of the state.
func (s *State) fork(ctx context.Context, hooks *hooks) (*controlplane.ControlPlane, error) {
	cfg := controlplane.Config{From: s.at, Webhooks: hooks,
		Controllers: controlplane.AllControllers{Selection: omittedControllers}}
	if !s.nodes {
		cfg.Node = controlplane.Simulated{}
	}
	plane, err := controlplane.Start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start a control plane on the state of %s: %w", s.name, err)
	}
	return plane, nil
}
