// Package waitfor waits for a field of an object to have a value.
//
// A condition has the form OBJECT:JSONPATH=VALUE, for example "at/example-at:{.status.phase}=DONE"
// or, in a namespace other than default, "team-a/at/example-at:{.status.phase}=DONE". OBJECT is
// KIND/NAME as in kubectl: KIND is a plural, singular or short name, or the kind itself. The path
// is a JSONPath as in kubectl. Without "=VALUE", any value that is not empty satisfies the
// condition.
package waitfor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/jsonpath"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Condition is a parsed condition.
type Condition struct {
	text      string
	namespace string
	kind      string // as written
	name      string
	path      *jsonpath.JSONPath
	value     string
	anyValue  bool
}

// Parse parses a condition.
func Parse(text string) (*Condition, error) {
	bad := func(why string) (*Condition, error) {
		return nil, fmt.Errorf("parse condition %q: %s (want OBJECT:JSONPATH=VALUE, for example 'at/example-at:{.status.phase}=DONE')", text, why)
	}
	object, rest, ok := strings.Cut(text, ":")
	if !ok {
		return bad("no ':' between object and path")
	}
	c := &Condition{text: text, namespace: "default"}
	switch parts := strings.Split(object, "/"); {
	case slices.Contains(parts, ""):
		return bad("the object must be KIND/NAME")
	case len(parts) == 2:
		c.kind, c.name = parts[0], parts[1]
	case len(parts) == 3:
		c.namespace, c.kind, c.name = parts[0], parts[1], parts[2]
	default:
		return bad("the object must be KIND/NAME")
	}
	path, value, hasValue := strings.Cut(rest, "=")
	if end := strings.LastIndex(rest, "}="); end >= 0 { // a filter in the path can contain '='
		path, value, hasValue = rest[:end+1], rest[end+2:], true
	} else if strings.HasSuffix(rest, "}") {
		path, value, hasValue = rest, "", false
	}
	if path == "" {
		return bad("no path")
	}
	if !strings.HasPrefix(path, "{") {
		path = "{." + strings.TrimPrefix(path, ".") + "}"
	}
	c.value, c.anyValue = value, !hasValue
	c.path = jsonpath.New("condition").AllowMissingKeys(true)
	if err := c.path.Parse(path); err != nil {
		return bad(err.Error())
	}
	return c, nil
}

func (c *Condition) String() string { return c.text }

// Wait returns nil when the condition is true in a cluster, or the error of ctx if that ends first.
// It is an error if the cluster does not have the kind.
func (c *Condition) Wait(ctx context.Context, config *rest.Config) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	kind, err := c.kindIn(config)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", c.text, err)
	}
	objects, err := client.New(client.Config{REST: config})
	if err != nil {
		return err
	}
	informers, err := informer.New(informer.Config{Client: objects})
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	i, err := informers.For(obj)
	if err != nil {
		return err
	}
	if _, err := i.AddHandler(&handler{c, func() { stop(errHeld) }}); err != nil {
		return err
	}
	err = informers.Run(ctx)
	if errors.Is(context.Cause(ctx), errHeld) {
		return nil
	}
	return errors.Join(err, ctx.Err())
}

var errHeld = errors.New("the condition is true")

// kindIn returns the kind with the condition's plural, singular, short or kind name.
func (c *Condition) kindIn(config *rest.Config) (schema.GroupVersionKind, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	// The error of a group that does not answer matters only if no other has the kind.
	lists, err := d.ServerPreferredResources()
	for _, list := range lists {
		version, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			continue
		}
		for i := range list.APIResources {
			if c.names(version.Group, &list.APIResources[i]) {
				return version.WithKind(list.APIResources[i].Kind), nil
			}
		}
	}
	if err == nil {
		err = fmt.Errorf("the cluster has no kind %q", c.kind)
	}
	return schema.GroupVersionKind{}, err
}

// names reports whether the condition's kind names a resource of a group.
func (c *Condition) names(group string, r *metav1.APIResource) bool {
	name, inGroup, _ := strings.Cut(strings.ToLower(c.kind), ".")
	return (inGroup == "" || inGroup == group) && (name == r.Name || name == r.SingularName ||
		name == strings.ToLower(r.Kind) && !strings.Contains(r.Name, "/") || slices.Contains(r.ShortNames, name))
}

// handler evaluates the condition on every state of the object.
type handler struct {
	condition *Condition
	held      func()
}

func (h *handler) evaluate(obj client.Object) {
	namespace := h.condition.namespace
	if obj.GetNamespace() == "" {
		namespace = ""
	}
	data, err := json.Marshal(obj)
	if err == nil && obj.GetName() == h.condition.name && obj.GetNamespace() == namespace && h.condition.holds(data) {
		h.held()
	}
}

func (h *handler) OnAdd(obj client.Object, _ bool)  { h.evaluate(obj) }
func (h *handler) OnUpdate(_, obj client.Object)    { h.evaluate(obj) }
func (h *handler) OnDelete(_ client.Object, _ bool) {}

// holds reports whether the condition is true for an object, as JSON.
func (c *Condition) holds(data []byte) bool {
	var object any
	if json.Unmarshal(data, &object) != nil {
		return false
	}
	var out bytes.Buffer
	if c.path.Execute(&out, object) != nil {
		return false
	}
	if c.anyValue {
		return out.Len() > 0
	}
	return out.String() == c.value
}
