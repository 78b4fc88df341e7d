package authn

import "fmt"

// flagError adds the name of kube-apiserver's flag, because users know the setting by that name.
func flagError(flag string, err error) error { return fmt.Errorf("--%s: %w", flag, err) }
