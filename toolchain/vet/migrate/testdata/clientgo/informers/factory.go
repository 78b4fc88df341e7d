package informers

type SharedInformerFactory interface{ Start() }

func NewSharedInformerFactory() SharedInformerFactory { return nil }
