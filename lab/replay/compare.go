package replay

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/lab/history"
)

// compare compares the objects that the operator wrote with the recorded ones.
func (r *replay) compare(at time.Time) error {
	r.result.Moments++
	recordedState, current := r.cfg.History.AtTime(at), r.store.Snapshot()
	r.mu.Lock()
	keys := slices.SortedFunc(maps.Keys(r.touched), func(a, b history.Key) int {
		return strings.Compare(a.String(), b.String())
	})
	r.mu.Unlock()
	for _, key := range keys {
		_, recorded, _, err := recordedState.Get(key)
		if err != nil {
			return err
		}
		var replayed []byte
		if obj := current.Get(store.Key(key)); obj != nil {
			replayed = r.toRecorded(obj.Data)
		}
		d, err := difference(recorded, replayed)
		if err != nil {
			return err
		}
		i, open := r.open[key]
		switch {
		case d == nil && open:
			until := at.UTC()
			r.result.Divergences[i].Until = &until
			delete(r.open, key)
		case d != nil && !open:
			d.Resource, d.Namespace, d.Name, d.Since = key.Resource, key.Namespace, key.Name, at.UTC()
			r.open[key] = len(r.result.Divergences)
			r.result.Divergences = append(r.result.Divergences, *d)
		}
	}
	return nil
}

// difference returns nil if two objects are equal except for values that differ in each run. Values
// of Secrets are compared only if they were recorded.
func difference(recorded, replayed []byte) (*Divergence, error) {
	redacted, err := history.Redact(recorded)
	if err != nil {
		return nil, err
	}
	if equal, err := sameJSON(redacted, recorded); err != nil {
		return nil, err
	} else if equal {
		if replayed, err = history.Redact(replayed); err != nil {
			return nil, err
		}
	}
	a, err := normal(recorded)
	if err != nil {
		return nil, err
	}
	b, err := normal(replayed)
	if err != nil {
		return nil, err
	}
	switch {
	case a == nil && b == nil:
		return nil, nil
	case b == nil:
		return &Divergence{Only: "recorded"}, nil
	case a == nil:
		return &Divergence{Only: "replayed"}, nil
	}
	changes, err := history.Diff(a, b, history.DiffOptions{})
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	return &Divergence{Changes: changes}, nil
}

func sameJSON(a, b []byte) (bool, error) {
	if bytes.Equal(a, b) {
		return true, nil
	}
	x, err := decode(a)
	if err != nil {
		return false, err
	}
	y, err := decode(b)
	return reflect.DeepEqual(x, y), err
}

// normal returns an object without the values that differ in each run: times, and the server's
// counters.
func normal(data []byte) ([]byte, error) {
	if data == nil {
		return nil, nil
	}
	obj, err := decode(data)
	if err != nil {
		return nil, err
	}
	var generation any
	if meta, ok := obj["metadata"].(map[string]any); ok {
		generation = meta["generation"]
		for _, name := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"} {
			delete(meta, name)
		}
	}
	return json.Marshal(steady(obj, generation))
}

// volume is the name of the volume that the server adds to a pod for its token.
var volume = regexp.MustCompile(`^kube-api-access-[a-z0-9]{5}$`)

// steady replaces times, random names, and, in the status, the object's generation.
func steady(v, generation any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if name == "observedGeneration" && value == generation {
				v[name] = "(newest)"
				continue
			}
			v[name] = steady(value, generation)
		}
	case []any:
		for i := range v {
			v[i] = steady(v[i], generation)
		}
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "(time)"
		}
		if volume.MatchString(v) {
			return "kube-api-access-(random)"
		}
	}
	return v
}
