// Package past restores the state of a control plane at a moment of a history, so that a server can
// serve it again or continue from it.
package past

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/lab/history"
)

// State holds the objects of a moment, in the form in which a store keeps them.
type State struct {
	Records []store.Record
	// Notes describe what is missing in the state, and why.
	Notes []string
}

const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// Read reads the objects of a state of a history. It converts objects that were recorded in a
// version other than the stored one. It omits objects of kinds that a control plane does not serve
// by itself, and custom objects that only a webhook can convert.
func Read(at history.State) (*State, error) {
	kinds, err := builtin.Resources(builtin.Config{})
	if err != nil {
		return nil, err
	}
	r := &reader{state: &State{}, builtin: map[string]*resource.Resource{},
		custom: map[string]*apiextensionsv1.CustomResourceDefinition{}}
	for _, k := range kinds {
		r.builtin[k.GroupResource().String()] = k
	}
	for _, v := range at.Objects(definitions) {
		_, data, _, err := at.Get(v.Key)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(data, crd); err != nil {
			return nil, fmt.Errorf("%v at revision %d: %w", v.Key, v.Revision, err)
		}
		r.custom[crd.Spec.Names.Plural+"."+crd.Spec.Group] = crd
	}
	omitted := map[string]int{}
	for _, v := range at.Objects("") {
		_, data, _, err := at.Get(v.Key)
		if err != nil {
			return nil, err
		}
		data, why, err := r.stored(v.Key, data)
		if err != nil {
			return nil, fmt.Errorf("%v at revision %d: %w", v.Key, v.Revision, err)
		}
		if why != "" {
			omitted[v.Key.Resource+" are not in the state: "+why]++
			continue
		}
		r.state.Records = append(r.state.Records,
			store.Record{Key: store.Key(v.Key), Revision: v.Revision, Created: v.Revision, Data: data})
	}
	for note := range omitted {
		r.state.Notes = append(r.state.Notes, note)
	}
	slices.Sort(r.state.Notes)
	return r.state, nil
}

type reader struct {
	state   *State
	builtin map[string]*resource.Resource
	custom  map[string]*apiextensionsv1.CustomResourceDefinition
}

// stored returns an object in the form in which a store keeps it, or the reason why the state omits
// it.
func (r *reader) stored(key history.Key, data []byte) (stored []byte, why string, err error) {
	var head struct{ APIVersion string }
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, "", err
	}
	version := head.APIVersion[strings.LastIndex(head.APIVersion, "/")+1:]
	if k := r.builtin[key.Resource]; k != nil {
		if k.Computed != nil || k.Codec == nil {
			return nil, "a control plane computes them", nil
		}
		if version == k.StorageVersion {
			return data, "", nil
		}
		if _, ok := k.Serves(version); !ok {
			return nil, "kelson does not have their version " + version, nil
		}
		hub, _, err := k.Codec.Decode(data, resource.MediaJSON, version)
		if err != nil {
			return nil, "", err
		}
		stored, err = k.Codec.Store(hub)
		return stored, "", err
	}
	if key.Resource == definitions {
		return data, "", nil
	}
	crd := r.custom[key.Resource]
	if crd == nil {
		return nil, "their definition did not exist, or another API server served them", nil
	}
	for _, v := range crd.Spec.Versions {
		if !v.Storage || v.Name == version {
			continue
		}
		if c := crd.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
			return nil, fmt.Sprintf("they were recorded in version %s and stored in %s, which a webhook converts",
				version, v.Name), nil
		}
		var obj map[string]json.RawMessage
		if err := json.Unmarshal(data, &obj); err != nil {
			return nil, "", err
		}
		// encoding a string does not fail
		obj["apiVersion"], _ = json.Marshal(crd.Spec.Group + "/" + v.Name)
		stored, err = json.Marshal(obj)
		return stored, "", err
	}
	return data, "", nil
}

// Backend returns a store.Backend in memory that begins with the state at a revision.
func (s *State) Backend(revision uint64) store.Backend { return memory{s.Records, revision} }

// memory does not keep writes, because the store keeps the state.
type memory struct {
	records  []store.Record
	revision uint64
}

var _ store.Backend = memory{}

// Load implements store.Backend.
func (m memory) Load(each func(store.Record) error) (uint64, error) {
	revision := m.revision
	for _, r := range m.records {
		if err := each(r); err != nil {
			return 0, fmt.Errorf("%v: %w", history.Key(r.Key), err)
		}
		revision = max(revision, r.Revision)
	}
	return revision, nil
}

// Append implements store.Backend.
func (memory) Append([]store.Record) error { return nil }

// Checkpoint implements store.Backend.
func (memory) Checkpoint() func(context.Context, iter.Seq[store.Record]) error { return nil }

// Close implements store.Backend.
func (memory) Close() error { return nil }
