package policy

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	static "k8s.io/apiserver/pkg/admission/plugin/policy/manifest/source"

	folder "kelson.dev/apiserver/admission/internal/manifests"
)

// manifests are the compiled policies of a folder. If the folder's content becomes invalid, the
// last valid policies stay in effect. The zero value has no policies.
type manifests[P, B runtime.Object, E generic.Evaluator] struct {
	source   *static.StaticPolicySource[P, B, E]
	follower folder.Follower
}

// open reads the manifests, and follows their changes until stop.
func (m *manifests[P, B, E]) open(cfg Config, k kinds[P, B, E]) error {
	var file io.Reader
	if cfg.Config != nil {
		file = bytes.NewReader(cfg.Config)
	}
	settings, err := k.folder(file)
	if err != nil || settings.StaticManifestsDir == "" {
		return err
	}
	if cfg.Manifests == nil {
		return folder.ErrUnsupported
	}
	compile := func(p P) (E, error) {
		e := k.compile(p)
		return e, k.failed(e)
	}
	m.source = static.NewStaticPolicySource(settings.StaticManifestsDir, "", compile,
		func(dir string) ([]P, []B, string, error) { return k.read(cfg.Manifests, dir) }, k.policyName, k.label)
	if err := m.source.LoadInitial(); err != nil {
		// Errors of expressions have several lines.
		return fmt.Errorf("failed to load static policy manifests from %q: %s", settings.StaticManifestsDir,
			strings.Join(strings.Fields(err.Error()), " "))
	}
	m.follower.Follow(m.source)
	return nil
}

func (m *manifests[P, B, E]) hooks() []generic.PolicyHook[P, B, E] {
	if m.source == nil {
		return nil
	}
	return m.source.Hooks()
}

func (m *manifests[P, B, E]) stop() { m.follower.Stop() }
