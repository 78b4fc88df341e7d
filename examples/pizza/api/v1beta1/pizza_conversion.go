package v1beta1

// Hub marks this version as the hub: all other versions are converted to and from it.
func (*Pizza) Hub() {}
