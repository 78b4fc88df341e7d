package simulatednodes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kelson.dev/kubernetes/node/simulated"
)

// Annotation marks a Node that the control plane simulates if its value is AnnotationValue. KWOK
// uses the same.
const (
	Annotation      = "kwok.x-k8s.io/node"
	AnnotationValue = "fake"
)

// AnnotationSilent makes a simulated node silent while its value is "true".
const AnnotationSilent = "sim.kelson.dev/silent"

// Group describes simulated nodes that differ only in their names and zones.
type Group struct {
	// Count is the number of nodes. It must be positive, unless Node is set.
	Count int `json:"count,omitempty"`
	// Name is the first part of the nodes' names: name-1, name-2 and so on, counted over all groups
	// with the same name. "" means "node".
	Name string `json:"name,omitempty"`
	// Capacity replaces quantities of the default capacity: 64 CPUs, 256 GiB, 1000 pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	Labels   map[string]string   `json:"labels,omitempty"`
	Taints   []corev1.Taint      `json:"taints,omitempty"`
	// Zones are the values of the label topology.kubernetes.io/zone, which the nodes get in turn.
	Zones []string `json:"zones,omitempty"`
	// Region is the value of the label topology.kubernetes.io/region.
	Region string `json:"region,omitempty"`
	// Node, if not nil, is the only node, unmodified; the other fields must be unset.
	Node *corev1.Node `json:"node,omitempty"`
}

// defaultName is the default of Group.Name.
const defaultName = "node"

// MaxNodes is the largest number of nodes that can be created at the start.
const MaxNodes = 10_000

// ParseGroup parses a group as on the command line: the number of nodes, and settings after commas:
//
//	3
//	3,cpu=4,memory=16Gi,zone=a/b/c,label=disk=ssd,taint=dedicated=db:NoSchedule
//
// The settings are name, zone (several are separated by slashes), region, label=KEY=VALUE and
// taint=KEY=VALUE:EFFECT (both may be repeated), and quantities of resources by their names, such
// as cpu, memory, pods and example.com/gpu.
func ParseGroup(text string) (Group, error) {
	first, rest, _ := strings.Cut(text, ",")
	count, err := strconv.Atoi(first)
	if err != nil {
		return Group{}, fmt.Errorf("%q: want a number of nodes first, as in 3,zone=a", text)
	}
	g := Group{Count: count}
	for rest != "" {
		var setting string
		setting, rest, _ = strings.Cut(rest, ",")
		if err := g.set(setting); err != nil {
			return Group{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	if _, err := Nodes(g); err != nil {
		return Group{}, fmt.Errorf("%q: %w", text, err)
	}
	return g, nil
}

func (g *Group) set(setting string) error {
	key, value, ok := strings.Cut(setting, "=")
	if !ok || value == "" {
		return fmt.Errorf("%q: want KEY=VALUE", setting)
	}
	switch key {
	case "name":
		g.Name = value
	case "zone":
		g.Zones = strings.Split(value, "/")
	case "region":
		g.Region = value
	case "label":
		name, text, ok := strings.Cut(value, "=")
		if !ok {
			return fmt.Errorf("%q: want label=KEY=VALUE", setting)
		}
		if g.Labels == nil {
			g.Labels = map[string]string{}
		}
		g.Labels[name] = text
	case "taint":
		rest, effect, ok := strings.Cut(value, ":")
		if !ok {
			return fmt.Errorf("%q: want taint=KEY=VALUE:EFFECT or taint=KEY:EFFECT", setting)
		}
		name, text, _ := strings.Cut(rest, "=")
		g.Taints = append(g.Taints, corev1.Taint{Key: name, Value: text, Effect: corev1.TaintEffect(effect)})
	default:
		if !strings.Contains(key, "/") && !slices.Contains(resources, key) {
			return fmt.Errorf("%q: unknown setting: want name, zone, region, label, taint, or a resource: %s, or one with a domain",
				key, strings.Join(resources, ", "))
		}
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return fmt.Errorf("%q: %w", setting, err)
		}
		if g.Capacity == nil {
			g.Capacity = corev1.ResourceList{}
		}
		g.Capacity[corev1.ResourceName(key)] = quantity
	}
	return nil
}

// resources are the resources of nodes without a domain.
var resources = []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory), string(corev1.ResourcePods),
	string(corev1.ResourceEphemeralStorage)}

// Nodes returns the Nodes of groups, or an error that names the first invalid value.
func Nodes(groups ...Group) ([]*corev1.Node, error) {
	var nodes []*corev1.Node
	counts := map[string]int{}
	names := map[string]bool{}
	for _, g := range groups {
		created, err := g.nodes(counts)
		if err != nil {
			return nil, err
		}
		for _, n := range created {
			if err := validate(n); err != nil {
				return nil, fmt.Errorf("node %q: %w", n.Name, err)
			}
			if names[n.Name] {
				return nil, fmt.Errorf("node %q: given twice", n.Name)
			}
			names[n.Name] = true
		}
		if nodes = append(nodes, created...); len(nodes) > MaxNodes {
			return nil, fmt.Errorf("%d nodes: at most %d are possible", len(nodes), MaxNodes)
		}
	}
	return nodes, nil
}

func (g *Group) nodes(counts map[string]int) ([]*corev1.Node, error) {
	if g.Node != nil {
		n := g.Node.DeepCopy()
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, Annotation, AnnotationValue)
		return []*corev1.Node{n}, nil
	}
	if g.Count < 1 || g.Count > MaxNodes {
		return nil, fmt.Errorf("%d nodes: must be between 1 and %d", g.Count, MaxNodes)
	}
	name := g.Name
	if name == "" {
		name = defaultName
	}
	capacity := (*simulated.Runtime)(nil).Info().Capacity
	maps.Copy(capacity, g.Capacity)
	nodes := make([]*corev1.Node, 0, g.Count)
	for i := range g.Count {
		counts[name]++
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-%d", name, counts[name]), Labels: maps.Clone(g.Labels),
				Annotations: map[string]string{Annotation: AnnotationValue},
			},
			Spec:   corev1.NodeSpec{Taints: slices.Clone(g.Taints)},
			Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		}
		if len(g.Zones) > 0 {
			metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelTopologyZone, g.Zones[i%len(g.Zones)])
		}
		if g.Region != "" {
			metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelTopologyRegion, g.Region)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// validate checks the user's settings, so that errors are reported before anything starts. The API
// server checks everything again.
func validate(n *corev1.Node) error {
	var errs []error
	check := func(what, value string, problems []string) {
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("%s %q: %s", what, value, problem))
		}
	}
	check("name", n.Name, validation.IsDNS1123Subdomain(n.Name))
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		check("label", key, validation.IsQualifiedName(key))
		check("label value", n.Labels[key], validation.IsValidLabelValue(n.Labels[key]))
	}
	for _, taint := range n.Spec.Taints {
		check("taint", taint.Key, validation.IsQualifiedName(taint.Key))
		check("taint value", taint.Value, validation.IsValidLabelValue(taint.Value))
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			check("taint effect", string(taint.Effect), []string{"must be NoSchedule, PreferNoSchedule or NoExecute"})
		}
	}
	for name, quantity := range n.Status.Capacity {
		check("resource", string(name), validation.IsQualifiedName(string(name)))
		if quantity.Sign() < 0 {
			check("quantity of "+string(name), quantity.String(), []string{"must not be negative"})
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errors.New(strings.ReplaceAll(errs[0].Error(), "\n", " ")) // one line
}
