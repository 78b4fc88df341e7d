package authn

import "fmt"

// flagError adds the name of kube-apiserver's flag, by which users know the setting.
func flagError(flag string, err error) error { return fmt.Errorf("--%s: %w", flag, err) }
