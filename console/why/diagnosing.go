package why

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/lab/diagnosis"
)

// Diagnosed has the findings of the cluster about an object.
type Diagnosed struct {
	// Findings are those of diagnosis.Of, the best first; empty if the object is as it should be.
	Findings []diagnosis.Finding `json:"findings"`
	// Error is the reason if the cluster can't be read. The findings are then those of the time At.
	Error string    `json:"error,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// A diagnosis is repeated after recheck, and after the costs of the last one times restFactor, so
// that a page takes at most a twentieth of a processor.
const (
	recheck    = 5 * time.Second
	restFactor = 20
)

// diagnosing diagnoses one object, again and again. One goroutine may use it.
type diagnosing struct {
	*Server
	resource, namespace, name string

	object *unstructured.Unstructured // nil if it does not exist, or can't be read
	result *Diagnosed
	known  time.Time // of the findings
	next   time.Time // of the next diagnosis
}

// changed returns a function that returns a channel, which is closed when that of also is, or when
// the object is due.
func (d *diagnosing) changed(ctx context.Context, also func() <-chan struct{}) func() <-chan struct{} {
	return func() <-chan struct{} {
		other, either := also(), make(chan struct{})
		wait := recheck
		if !d.next.IsZero() {
			wait = time.Until(d.next)
		}
		go func() {
			defer close(either)
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-other:
			case <-timer.C:
			case <-ctx.Done():
			}
		}()
		return either
	}
}

// current returns a diagnosis that is not older than necessary: nil if the cluster does not have
// the object. An error means that ctx has ended.
func (d *diagnosing) current(ctx context.Context) (*Diagnosed, error) {
	if d.resource == "" || time.Now().Before(d.next) {
		return d.result, nil
	}
	began := time.Now()
	object, findings, err := d.diagnose(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	took := time.Since(began)
	d.next = began.Add(max(recheck, restFactor*took))
	switch {
	case apierrors.IsNotFound(err):
		d.object, d.result = nil, nil
	case err != nil:
		failed := &Diagnosed{Findings: []diagnosis.Finding{}, Error: err.Error(), At: d.known}
		if d.result != nil {
			failed.Findings = d.result.Findings
		}
		d.result = failed
	default:
		d.object, d.result = object, &Diagnosed{Findings: append([]diagnosis.Finding{}, findings...)}
		d.known = time.Now()
	}
	return d.result, nil
}

func (d *diagnosing) diagnose(ctx context.Context) (*unstructured.Unstructured, []diagnosis.Finding, error) {
	kind, err := d.Cluster.Kind(d.resource)
	if err != nil {
		return nil, nil, err
	}
	object, err := d.read(ctx, kind, d.name)
	if err != nil {
		return nil, nil, err
	}
	findings, err := diagnosis.Of(ctx, d.Diagnosis, object)
	return object, findings, err
}

// read reads an object of the namespace, or one without a namespace.
func (d *diagnosing) read(ctx context.Context, kind cluster.Kind, name string) (*unstructured.Unstructured, error) {
	var data json.RawMessage
	if err := d.Cluster.Get(ctx, cluster.Request{Path: kind.Path(d.namespace, name)}, &data); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(data)
}

// owners calls visit with the owners of the object; see diagnosis.Owners. An owner that can't be
// read ends the chain.
func (d *diagnosing) owners(ctx context.Context, visit func(diagnosis.Ref) bool) (chain []diagnosis.Ref, found bool) {
	chain, found, _ = diagnosis.Owners(d.object, func(ref metav1.OwnerReference) (*unstructured.Unstructured, error) {
		kind, err := d.Cluster.Owner(ref)
		if err != nil {
			return nil, err
		}
		return d.read(ctx, kind, ref.Name)
	}, visit)
	return chain, found
}
