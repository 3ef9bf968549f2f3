/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * module.c: rpipe._rpipe, what the package rpipe is built from.
 */
#include "binding.h"

#include <rinfo.h>

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "rpipe._rpipe",
    .m_size = -1,
    .m_methods = network_methods,
};

static bool module_add_types(PyObject *module)
{
    return PyModule_AddType(module, &PipeType) == 0 &&
           PyModule_AddType(module, &MessageType) == 0 &&
           PyModule_AddType(module, &RegionType) == 0 &&
           PyModule_AddType(module, &CellsType) == 0 && PyModule_AddType(module, &GroupType) == 0;
}

static bool module_add_numbers(PyObject *module)
{
    return PyModule_AddIntMacro(module, RPIPE_THREADS) == 0 &&
           PyModule_AddIntMacro(module, RPIPE_HUGE_PAGES) == 0 &&
           PyModule_AddIntMacro(module, RPIPE_INLINE_NONE) == 0 &&
           PyModule_AddIntMacro(module, RPIPE_WATERMARK_ALWAYS) == 0 &&
           PyModule_AddIntConstant(module, "EOF", R_EOF) == 0 &&
           PyModule_AddStringConstant(module, "version", rinfo_version()) == 0;
}

PyMODINIT_FUNC PyInit__rpipe(void)
{
    PyObject *module = PyModule_Create(&module_definition);

    if (module != NULL && module_add_types(module) && module_add_numbers(module))
        return module;
    Py_XDECREF(module);
    return NULL;
}
