# A Debian package of the program: llmsim, its manual page and completions, and the Python module, of the component `program`.
# cli/packaging/deb builds it; what is left out (libraries and headers) belongs to `cmake --install`.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME llmsim)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_PACKAGE_CONTACT "llmsim developers <llmsim@localhost>")  # lintian: bogus-mail-host, until there is an address
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "predict memory, step time and MFU of LLM training")
set(CPACK_PACKAGE_DESCRIPTION
    "Analytical simulator of training large language models: memory, FLOPs,
communication, step time and cost of models, parallelism and hardware,
and the best layout for a number of accelerators, with error bars.")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)

# The texts are the installed program's own, so they are made when the package is.
set(texts ${PROJECT_BINARY_DIR}/package_texts)
install(
  CODE "execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/texts \"$<TARGET_FILE:llmsim>\" \"${PROJECT_SOURCE_DIR}\"
        \"${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}\" \"${texts}\" COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT program
)
install(DIRECTORY ${texts}/share/ DESTINATION share COMPONENT program)
