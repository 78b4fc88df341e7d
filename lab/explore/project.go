package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest/manifest"
)

// Samples returns an input for each object in manifests that creates it. The paths are files, or
// folders whose .yaml, .yml and .json files are read in the order of their names. Kustomizations
// are skipped.
func Samples(paths ...string) ([]Input, error) {
	manifests, err := manifest.Read(paths...)
	if err != nil {
		return nil, err
	}
	var inputs []Input
	for _, m := range manifests {
		inputs = append(inputs, Create(m.Object))
	}
	return inputs, nil
}

// Project returns the scenario of a project in the layout of kelson init and kubebuilder: the
// definitions in config/crd/bases, the roles in config/rbac and the samples in config/samples.
// Operators of Kubernetes' own kinds have no definitions. Workload controllers and simulated nodes
// run. The operator serves the webhooks of config/webhook/manifests.yaml, unless it is a Binary.
// [ConfigFile] may name other folders, change the inputs, and add invariants.
//
// The function run becomes Scenario.Operator; PartsOf returns such a function. It is nil if the
// operator is a Binary; the caller then sets Scenario.Binary.
func Project(dir string, run func(context.Context, *rest.Config) error) (Scenario, error) {
	samples := filepath.Join(dir, "config", "samples")
	s := Scenario{Operator: run, Env: []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})}}
	c, err := s.configure(dir)
	if err != nil {
		return Scenario{}, err
	}
	crds, named := c.definitions(dir)
	s.folder = strings.Join(crds, ", ")
	switch _, err := manifest.Read(crds...); {
	case err == nil:
		s.Env = append(s.Env, testenv.CRDs(crds...))
	case named || !errors.Is(err, os.ErrNotExist):
		return Scenario{}, fmt.Errorf("read the project's definitions: %w", err)
	}
	for _, o := range s.folders {
		paths, err := Definitions(o.Folder)
		if err != nil {
			return Scenario{}, fmt.Errorf("the operator %s: %w", o.Name, err)
		}
		if len(paths) > 0 {
			s.Env = append(s.Env, testenv.CRDs(paths...))
		}
	}
	if len(c.Inputs) == 0 {
		if _, err := os.Stat(samples); errors.Is(err, os.ErrNotExist) {
			return Scenario{}, fmt.Errorf("the project has no samples, so the operator has nothing to do; name manifests in inputs in %s, or write objects there: %w", ConfigFile, err)
		}
		if s.Inputs, err = samplesOf(samples); err != nil {
			return Scenario{}, fmt.Errorf("read the project's samples: %w; correct them, or set inputs in %s", err, ConfigFile)
		}
	}
	if err := s.setRoles(dir, c); err != nil {
		return Scenario{}, err
	}
	s.variables = managerVariables(dir, s.namespace)
	hooks := c.Webhooks
	if hooks == nil {
		// The other files of the folder configure kustomize.
		hooks = []string{filepath.Join(dir, "config", "webhook", "manifests.yaml")}
	}
	if s.conversions, err = conversions(filepath.Join(dir, "config", "crd", "patches")); err != nil {
		return Scenario{}, err
	}
	switch _, err := manifest.Webhooks(hooks...); {
	case err == nil:
		s.Env = append(s.Env, testenv.Webhooks(hooks...))
	case len(s.conversions) > 0 && len(c.Webhooks) == 0 &&
		(errors.Is(err, manifest.ErrNone) || errors.Is(err, os.ErrNotExist)):
		s.Env = append(s.Env, testenv.Webhooks())
	case len(c.Webhooks) > 0 || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, manifest.ErrNone):
		return Scenario{}, fmt.Errorf("read the project's webhooks: %w", err)
	}
	if s.Prepare, err = prepare(dir, c.Prepare); err != nil {
		return Scenario{}, fmt.Errorf("%s: prepare: %w", ConfigFile, err)
	}
	s.addNamespaces()
	return s, nil
}

// setRoles gives the operator the rights of the project's ServiceAccount, or all rights if the
// project has none.
func (s *Scenario) setRoles(dir string, c *config) error {
	roles := c.Roles
	if roles == nil {
		var err error
		if roles, err = rolesIn(filepath.Join(dir, "config", "rbac")); err != nil {
			return fmt.Errorf("read the project's roles: %w", err)
		}
		roles = ofManager(dir, roles)
	}
	if len(roles) == 0 {
		return nil // roles: []
	}
	manifests, user, err := manifest.RBAC(roles...)
	switch {
	case err == nil:
		s.Env = append(s.Env, testenv.RBAC(roles...))
		s.namespace = strings.Split(user, ":")[2] // of the ServiceAccount
		s.warnOfRoles(manifests)
		return nil
	case c.Roles == nil && errors.Is(err, os.ErrNotExist):
		return nil
	case c.Roles != nil || !errors.Is(err, manifest.ErrServiceAccounts) && !errors.Is(err, manifest.ErrNone):
		return fmt.Errorf("%w; roles in %s lists the files of the operator's rights, and roles: [] gives it all rights",
			err, ConfigFile)
	case hasAccount(roles):
		return fmt.Errorf("%w; name the files of one of them in roles in %s", err, ConfigFile)
	}
	s.warnings = append(s.warnings, fmt.Sprintf(
		"%s has no ServiceAccount, so the operator has all rights, and missing ones are not found (O12). "+
			"Name the files of its rights in roles in %s, or confirm this with roles: []",
		filepath.Join(dir, "config", "rbac"), ConfigFile))
	return nil
}

// warnOfRoles adds a warning about each binding whose role no manifest has: the operator then
// lacks these rights, and O12 would name markers that it has. A binding may have the prefix of a
// kustomization that is not read.
func (s *Scenario) warnOfRoles(manifests []manifest.Manifest) {
	exist := map[string]bool{"ClusterRole cluster-admin": true, "ClusterRole admin": true, "ClusterRole edit": true,
		"ClusterRole view": true}
	for _, m := range manifests {
		exist[m.Object.GetKind()+" "+m.Object.GetName()] = true
	}
	for _, m := range manifests {
		kind, _, _ := unstructured.NestedString(m.Object.Object, "roleRef", "kind")
		name, bound, _ := unstructured.NestedString(m.Object.Object, "roleRef", "name")
		if bound && !exist[kind+" "+name] && !strings.HasPrefix(name, "system:") {
			s.warnings = append(s.warnings, fmt.Sprintf("%s %s names the %s %s, which does not exist, so it gives no rights. "+
				"Name files in which it exists in roles in %s, such as the output of kubectl kustomize config/default",
				m.Object.GetKind(), m.Object.GetName(), kind, name, ConfigFile))
		}
	}
}

// rolesIn returns the files with the operator's rights in a folder: those that its kustomization
// lists if a ServiceAccount is among them, because a folder may contain other versions of a role,
// otherwise the folder. A kustomization may name files of other repositories; these are left out.
func rolesIn(dir string) ([]string, error) {
	config, err := kustomizationOf(dir)
	if err != nil || config == nil {
		return []string{dir}, err
	}
	var listed []string
	for _, name := range config.Resources {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			listed = append(listed, path)
		} else if !strings.Contains(name, "//") && !strings.Contains(name, "?ref=") {
			return nil, fmt.Errorf("the kustomization of %s lists a file that does not exist: %w; generate it, or name "+
				"the files in roles in %s", dir, err, ConfigFile)
		}
	}
	if len(listed) == 0 || !hasAccount(listed) {
		return []string{dir}, nil
	}
	return listed, nil
}

// ofManager removes the files from roles that contain only ServiceAccounts of other programs than
// the project's manager, if there are several accounts and a Deployment of config/manager names one
// of them.
func ofManager(dir string, roles []string) []string {
	all, err := manifest.Read(roles...)
	if err != nil {
		return roles
	}
	accounts := map[string][]string{} // by file
	var files []string
	count := 0
	for _, m := range all {
		if len(files) == 0 || files[len(files)-1] != m.File {
			files = append(files, m.File)
		}
		if m.Object.GetKind() == "ServiceAccount" {
			accounts[m.File] = append(accounts[m.File], m.Object.GetName())
			count++
		}
	}
	if count < 2 {
		return roles
	}
	deployed, err := manifest.Read(filepath.Join(dir, "config", "manager"))
	if err != nil {
		return roles
	}
	for _, m := range deployed {
		own, _, _ := unstructured.NestedString(m.Object.Object, "spec", "template", "spec", "serviceAccountName")
		left := slices.DeleteFunc(slices.Clone(files), func(file string) bool {
			return len(accounts[file]) > 0 && !slices.Contains(accounts[file], own)
		})
		if hasAccount(left) {
			return left
		}
	}
	return roles
}

// addNamespaces has Prepare create the namespaces of objects of the inputs that no input creates.
// Users create them before the samples, so it adds a warning about each.
func (s *Scenario) addNamespaces() {
	exist := []string{"", "default", "kube-system", "kube-public", "kube-node-lease", s.namespace}
	for _, input := range s.Inputs {
		if u, ok := input.apply.(*unstructured.Unstructured); ok && u.GetKind() == "Namespace" && u.GetAPIVersion() == "v1" {
			exist = append(exist, u.GetName())
		}
	}
	var missing []string
	for _, input := range s.Inputs {
		if input.apply != nil && !slices.Contains(exist, input.apply.GetNamespace()) {
			missing = append(missing, input.apply.GetNamespace())
			exist = append(exist, input.apply.GetNamespace())
			s.warnings = append(s.warnings, fmt.Sprintf("no manifest creates the namespace %s of %q, so it exists before",
				input.apply.GetNamespace(), input.String()))
		}
	}
	if len(missing) == 0 {
		return
	}
	before := s.Prepare
	s.Prepare = func(ctx context.Context, c client.Client) error {
		if before != nil {
			if err := before(ctx, c); err != nil {
				return err
			}
		}
		for _, name := range missing {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create namespace %s: %w", name, err)
			}
		}
		return nil
	}
}

// hasAccount reports whether a ServiceAccount is among manifests.
func hasAccount(paths []string) bool {
	all, err := manifest.Read(paths...)
	return err == nil && slices.ContainsFunc(all, func(m manifest.Manifest) bool {
		return m.Object.GetKind() == "ServiceAccount"
	})
}

// conversions returns the patches of definitions in a folder that add a conversion webhook, as
// kubebuilder writes them for kustomize.
func conversions(folder string) (patches []client.Object, err error) {
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read the patches of definitions: %w", err)
	}
	for _, entry := range entries {
		if ext := filepath.Ext(entry.Name()); entry.IsDir() || ext != ".yaml" && ext != ".yml" && ext != ".json" {
			continue
		}
		found, err := conversionsIn(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the patches of definitions: %s: %w", entry.Name(), err)
		}
		patches = append(patches, found...)
	}
	return patches, nil
}

// conversionsIn returns those patches in a file. It skips other documents, such as JSON patches,
// which are lists.
func conversionsIn(file string) (patches []client.Object, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var document any
		if err := documents.Decode(&document); errors.Is(err, io.EOF) {
			return patches, nil
		} else if err != nil {
			return nil, err
		}
		object, _ := document.(map[string]any)
		patch := &unstructured.Unstructured{Object: object}
		if _, found, _ := unstructured.NestedMap(object, "spec", "conversion"); found &&
			patch.GetKind() == definitionKind.Kind && patch.GetName() != "" {
			patches = append(patches, patch)
		}
	}
}

// definitionKind is the served version of definitions. Patches may have an older one.
var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
	Kind: "CustomResourceDefinition"}

// setConversions applies such patches.
func setConversions(ctx context.Context, c client.Client, patches []client.Object) error {
	for _, patch := range patches {
		definition, err := read(ctx, c, definitionKind, client.KeyOf(patch))
		if err != nil {
			return fmt.Errorf("set the conversion of %s: %w", patch.GetName(), err)
		}
		if versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions"); len(versions) < 2 {
			continue // the kind has one version; older projects have such a patch for each kind
		}
		before := definition.DeepCopy()
		if err := unstructured.SetNestedMap(definition.Object, conversionOf(patch.(*unstructured.Unstructured)), "spec",
			"conversion"); err != nil {
			return fmt.Errorf("set the conversion of %s: %w", patch.GetName(), err)
		}
		if err := c.Patch(ctx, definition, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("set the conversion of %s: %w", patch.GetName(), err)
		}
	}
	return nil
}

// conversionOf returns the conversion of a patch with the fields of v1. In v1beta1, those of the
// webhook were beside the strategy.
func conversionOf(patch *unstructured.Unstructured) map[string]any {
	conversion, _, _ := unstructured.NestedMap(patch.Object, "spec", "conversion")
	config, found := conversion["webhookClientConfig"]
	if !found {
		return conversion
	}
	reviews, found := conversion["conversionReviewVersions"]
	if !found {
		reviews = []any{"v1beta1"} // the default of v1beta1
	}
	return map[string]any{"strategy": conversion["strategy"],
		"webhook": map[string]any{"clientConfig": config, "conversionReviewVersions": reviews}}
}

// PartsOf returns a Scenario.Operator that runs the parts of an operator, as Parts does. The
// function parts is called for each process of the operator, and never twice at a time.
func PartsOf(parts func() []operator.Part) func(context.Context, *rest.Config) error {
	var mu sync.Mutex
	return func(ctx context.Context, config *rest.Config) error {
		created := func() []operator.Part {
			mu.Lock()
			defer mu.Unlock() // also if the operator panics
			return parts()
		}()
		if len(created) == 0 {
			return errors.New("main returned before it called operator.Main")
		}
		return operator.Run(ctx, operator.Config{REST: config, Log: Log(ctx),
			Webhooks: testenv.ServiceWebhookConfig(ctx), NoWebhooks: !testenv.HasWebhooks(ctx)}, created...)
	}
}
