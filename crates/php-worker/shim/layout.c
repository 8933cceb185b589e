/*
 * The layout of the calls of a script in this PHP, for readers in other processes.
 */
#include "internal.h"

/* src/trace.rs has names for these numbers. */
_Static_assert(IS_UNDEF == 0 && IS_NULL == 1 && IS_FALSE == 2 && IS_TRUE == 3 && IS_LONG == 4
                   && IS_DOUBLE == 5 && IS_STRING == 6 && IS_ARRAY == 7 && IS_OBJECT == 8
                   && IS_RESOURCE == 9 && IS_REFERENCE == 10,
               "named in src/trace.rs");
_Static_assert(ZEND_INTERNAL_FUNCTION == 1 && ZEND_USER_FUNCTION == 2 && ZEND_EVAL_CODE == 4,
               "named in src/trace.rs");

void howdah_php_layout(struct howdah_layout *layout)
{
    *layout = (struct howdah_layout){
        .current = (uintptr_t)&EG(current_execute_data),
        .call_opline = offsetof(zend_execute_data, opline),
        .call_function = offsetof(zend_execute_data, func),
        .call_type = offsetof(zend_execute_data, This.u1.type_info),
        .call_arguments = offsetof(zend_execute_data, This.u2.num_args),
        .call_previous = offsetof(zend_execute_data, prev_execute_data),
        .call_slots = ZEND_CALL_FRAME_SLOT * sizeof(zval),
        .function_type = offsetof(zend_function, type),
        .function_name = offsetof(zend_function, common.function_name),
        .function_class = offsetof(zend_function, common.scope),
        .function_parameters = offsetof(zend_function, common.num_args),
        .function_file = offsetof(zend_op_array, filename),
        .function_variables = offsetof(zend_op_array, last_var),
        .function_temporaries = offsetof(zend_op_array, T),
        .opline_line = offsetof(zend_op, lineno),
        .string_length = offsetof(zend_string, len),
        .string_text = offsetof(zend_string, val),
        .class_name = offsetof(zend_class_entry, name),
        .value_type = offsetof(zval, u1.v.type),
        .value_size = sizeof(zval),
        .object_class = offsetof(zend_object, ce),
        .reference_value = offsetof(zend_reference, val),
        .call_is_top = ZEND_CALL_TOP,
    };
}
