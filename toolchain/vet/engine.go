package vet

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Check checks objects with an empty control plane, in which it creates the definitions and
// namespaces. The report includes the costs of the definitions' rules. An error means that the
// engine failed, not that an object is invalid.
func Check(ctx context.Context, engine *rest.Config, ms Manifests) (*Report, error) {
	e, err := newChecker(engine)
	if err != nil {
		return nil, fmt.Errorf("vet: %w", err)
	}
	report := &Report{Objects: len(ms)}
	for _, m := range ms {
		if isDefinition(m) {
			report.Add(e.define(ctx, m)...)
		}
	}
	for _, d := range ms.Definitions() {
		rules := Costs(d)
		report.Rules = append(report.Rules, rules...)
		report.Add(advice(d, rules)...)
	}
	if err := e.discover(engine); err != nil {
		return nil, fmt.Errorf("vet: %w", err)
	}
	for _, m := range ms {
		if !isDefinition(m) {
			report.Add(e.check(ctx, m)...)
		}
	}
	report.Sort()
	return report, ctx.Err()
}

func isDefinition(m *Manifest) bool {
	gvk := m.Object.GroupVersionKind()
	return gvk.Group == apiextensionsv1.GroupName && gvk.Kind == definitionKind
}

// checker checks objects one at a time.
type checker struct {
	client   dynamic.Interface
	mapper   meta.RESTMapper
	groups   map[string]bool      // groups with served kinds
	rejected map[string]*Manifest // definitions that were rejected, by group
	warnings *warnings
	defined  map[string]*Manifest
}

func newChecker(engine *rest.Config) (*checker, error) {
	e := &checker{warnings: &warnings{}, defined: map[string]*Manifest{}, rejected: map[string]*Manifest{}}
	cfg := rest.CopyConfig(engine)
	cfg.WarningHandler, cfg.WarningHandlerWithContext = e.warnings, nil
	cfg.QPS = -1
	var err error
	e.client, err = dynamic.NewForConfig(cfg)
	return e, err
}

// discover reads the served kinds from discovery.
func (e *checker) discover(engine *rest.Config) error {
	cfg := rest.CopyConfig(engine)
	cfg.QPS = -1
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	kinds, err := restmapper.GetAPIGroupResources(c)
	if err != nil {
		return err
	}
	e.mapper, e.groups = restmapper.NewDiscoveryRESTMapper(kinds), map[string]bool{}
	for _, g := range kinds {
		e.groups[g.Group.Name] = true
	}
	return nil
}

// define checks a definition and installs its kinds.
func (e *checker) define(ctx context.Context, m *Manifest) []Finding {
	name := m.Object.GetName()
	if first := e.defined[name]; first != nil {
		if reflect.DeepEqual(first.Object.Object["spec"], m.Object.Object["spec"]) {
			return nil // the same definition again, for example in a bundle
		}
		return []Finding{m.finding(Warning, "metadata.name", "already defined differently in %s:%d; not checked",
			first.File, first.Line(""))}
	}
	definitions := e.client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	findings := e.create(ctx, m, definitions)
	if hasErrors(findings) {
		group, _, _ := unstructured.NestedString(m.Object.Object, "spec", "group")
		e.rejected[group] = m
	} else {
		// No conversion webhook runs here, so objects are not converted.
		plain := m.Object.DeepCopy()
		unstructured.RemoveNestedField(plain.Object, "spec", "conversion")
		if _, err := definitions.Create(ctx, plain, metav1.CreateOptions{}); err != nil {
			findings = append(findings, m.refused(err)...)
		}
		e.warnings.take()
		e.defined[name] = m
	}
	return findings
}

// check checks an object.
func (e *checker) check(ctx context.Context, m *Manifest) []Finding {
	kind := m.Object.GroupVersionKind()
	mapping, err := e.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err) && e.rejected[kind.Group] != nil:
		d := e.rejected[kind.Group]
		return []Finding{m.finding(Warning, "apiVersion", "not checked: %s:%d, which may define its kind, was rejected",
			d.File, d.Line(""))}
	case meta.IsNoMatchError(err) && e.groups[kind.Group]:
		return []Finding{m.finding(Error, "kind", "no matches for kind %q in version %q", kind.Kind,
			m.Object.GetAPIVersion())}
	case meta.IsNoMatchError(err):
		return []Finding{m.finding(Warning, "apiVersion",
			"not checked: no definition for kinds of %s; pass the file with its definition too", kind.Group)}
	case err != nil:
		return m.refused(err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return e.create(ctx, m, e.client.Resource(mapping.Resource))
	}
	namespace := m.Object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	if err := e.needNamespace(ctx, namespace); err != nil {
		return []Finding{m.finding(Error, "metadata.namespace", "%v", err)}
	}
	return e.create(ctx, m, e.client.Resource(mapping.Resource).Namespace(namespace))
}

func (e *checker) needNamespace(ctx context.Context, name string) error {
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetName(name)
	namespaces := e.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	if _, err := namespaces.Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func hasErrors(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity == Error {
			return true
		}
	}
	return false
}

// warnings collects the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

var _ rest.WarningHandler = (*warnings)(nil)

func (w *warnings) HandleWarningHeader(code int, _, text string) {
	if code == 299 && text != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.texts = append(w.texts, text)
	}
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}
