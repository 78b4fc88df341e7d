package explore

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/store"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest/manifest"
)

// UpgradeDefinitions is Upgrade with the definitions of the former version from the beginning, so
// before the upgrade, versions and conversions that this version adds are missing. When the
// operator is quiet after the N-th input, the former version ends, the definitions become those of
// this version, and this version starts. When it is quiet, all objects are written again, so that
// they are stored in the new version. The control plane must accept the definitions, and at the
// end, the objects must be as without the former version (O1, O9).
const UpgradeDefinitions Kind = "upgrade-definitions"

// Definitions returns the files and folders with the definitions of a project: those that its
// ConfigFile names, or config/crd/bases. It returns none if the project has none.
func Definitions(dir string) (paths []string, err error) {
	c, err := readConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	paths, named := c.definitions(dir)
	if _, err := os.Stat(paths[0]); err != nil && !named {
		return nil, nil
	}
	return paths, nil
}

// readDefinitions returns the definitions in files and folders.
func readDefinitions(paths []string) (definitions []*unstructured.Unstructured, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	all, err := manifest.Read(paths...)
	for _, m := range all {
		if m.Object.GetKind() == definitionKind.Kind {
			definitions = append(definitions, m.Object)
		}
	}
	return definitions, err
}

// compareDefinitions notes whether the definitions of the former version differ from those of this
// version, which the base has.
func (e *explorer) compareDefinitions(ctx context.Context) (err error) {
	if e.former, err = readDefinitions(e.scenario.FormerDefinitions); err != nil {
		return fmt.Errorf("read the definitions of the former version: %w", err)
	}
	for _, definition := range e.former {
		installed, err := read(ctx, e.base.Client(), definitionKind, client.KeyOf(definition))
		switch {
		case apierrors.IsNotFound(err):
			continue // this version no longer has the kind
		case err != nil:
			return err
		}
		former := definition.DeepCopy()
		former.SetGroupVersionKind(definitionKind)
		former.SetResourceVersion(installed.GetResourceVersion())
		// The server sets the defaults. If it refuses the definition, it differs.
		if err := e.base.Client().Update(ctx, former, client.DryRunAll); err != nil ||
			!reflect.DeepEqual(former.Object["spec"], installed.Object["spec"]) {
			e.definitionsDiffer = true
		}
	}
	return nil
}

// installFormer replaces the definitions by those of the former version. It is called before the
// operator starts, and before the trial orders the writes. There must be no objects of the kinds.
func (t *trial) installFormer() error {
	ctx, env := t.setup.t.Context(), t.setup.env
	for _, definition := range t.setup.former {
		name := definition.GetName()
		for range env.Plane().Store().Snapshot().Scan(name, "", store.Key{}) {
			return fmt.Errorf("the plan is not possible: objects of %s exist before the operator starts", name)
		}
		newest, err := read(ctx, env.Client(), definitionKind, client.KeyOf(definition))
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		default:
			t.newestDefinitions = append(t.newestDefinitions, newest)
			if err := env.Client().Delete(ctx, newest.DeepCopy()); err != nil {
				return fmt.Errorf("delete the definition %s: %w", name, err)
			}
			env.Settle(t.setup.t)
		}
		if err := env.Client().Create(ctx, definition.DeepCopy()); err != nil {
			return fmt.Errorf("create the former version of the definition %s: %w", name, err)
		}
		env.Settle(t.setup.t)
	}
	return nil
}

// upgradeDefinitions performs UpgradeDefinitions.
func (a *actions) upgradeDefinitions() bool {
	a.trial.operator.stop()
	a.result.log("the definitions become those of the newest version")
	refused := ""
	ok := a.users.try(func(ctx context.Context, c client.Client) error {
		for _, newest := range a.trial.newestDefinitions {
			current, err := read(ctx, c, definitionKind, client.KeyOf(newest))
			if err != nil {
				return err
			}
			current.Object["spec"] = newest.DeepCopy().Object["spec"]
			if err := c.Update(ctx, current); err != nil {
				if isRefusal(err) {
					refused = fmt.Sprintf("%s: %v", newest.GetName(), err)
				}
				return err
			}
			// Its status lists all former storage versions.
			a.history.excluded[newest.GetName()] = true
		}
		return nil
	})
	if refused != "" {
		a.result.alarm("O1", "the control plane refuses the new definitions", strings.TrimSpace(refused))
		return false
	}
	if !ok {
		return false
	}
	a.trial.operator.stopped = false
	a.trial.operator.replace(newest)
	for _, newest := range a.trial.newestDefinitions {
		if !a.trial.settle() || !a.users.try(func(ctx context.Context, c client.Client) error {
			return a.migrate(ctx, c, newest.GetName())
		}) {
			return false
		}
	}
	return a.trial.settle()
}

// excludes reports whether an object is not part of the state, because an action has changed its
// definition: the definition itself, and the APIServices that the control plane derives from the
// versions of definitions.
func (h *history) excludes(key store.Key) bool {
	return len(h.excluded) > 0 && (key.Resource == "apiservices.apiregistration.k8s.io" ||
		key.Resource == definitions && h.excluded[key.Name])
}
