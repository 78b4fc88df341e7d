package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"kelson.dev/internal/require"
)

// Operators are packaged whatever their PROJECT file: none, or one of an early kubebuilder.
func TestProjectFilesOfOtherVersions(t *testing.T) {
	for name, file := range map[string]string{
		"none":    "",
		"2":       "version: \"2\"\ndomain: example.com\n",
		"3-alpha": "version: 3-alpha\nlayout: go.kubebuilder.io/v2\nprojectName: shop\n",
		"3":       "version: \"3\"\nlayout: [go.kubebuilder.io/v4]\nprojectName: shop-two\n",
	} {
		dir := filepath.Join(t.TempDir(), "My_Shop.v1")
		for name, text := range map[string]string{
			"PROJECT":                           file,
			"config/default/kustomization.yaml": "resources: [manager.yaml]\n",
			"config/default/manager.yaml":       "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: m}\n",
		} {
			name = filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
			if text == "" {
				continue
			}
			require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		}
		want := "my-shop-v1"
		if name == "3" {
			want = "shop-two"
		}
		o, err := readOperator(dir)
		if err != nil || o.Name != want || len(o.Objects) != 1 {
			t.Errorf("%s: name %q, %d objects, %v", name, o.Name, len(o.Objects), err)
		}
	}
}
