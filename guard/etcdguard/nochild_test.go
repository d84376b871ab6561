package etcdguard_test

func runChild() {}
